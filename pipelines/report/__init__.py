"""The state of the mirror: its status, its coverage, the account, the data dictionary.

Belongs here: collecting and wording it, without changing anything. Does not belong here: printing it (see `cli`).
"""
