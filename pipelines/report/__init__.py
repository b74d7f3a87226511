"""The state of the mirror as text: status, coverage, account, data dictionary.

Belongs here: collecting figures and describing them, without changing anything. Does not belong here: printing (see
`cli`).
"""
