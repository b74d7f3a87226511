"""Text about the mirror's state: status, coverage, account, data dictionary.

This package collects and describes figures without changing anything. Printing is in `cli`.
"""
