"""Read-only checks of the loaded data.

Hours are counted by `read/audit`, because commands use these counts as well.
"""
