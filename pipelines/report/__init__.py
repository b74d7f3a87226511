"""Texts about the mirror's state, such as its status, coverage, account and data dictionary.

This package collects and describes figures without changing anything. The `cli` package prints these figures.
"""
