"""What is loaded, looked at again for the checks: it only reads. Hours are counted by `read/audit`, since commands ask for them as well."""
