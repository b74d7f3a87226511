"""HTTP interface with the service's operations, control requests under `/sandbox/`, and injected faults.

This package contains routing, parameters, permission checks and response formats. Files belong to `store`, and account
permissions belong to `accounts`.
"""
