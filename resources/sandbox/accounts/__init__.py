"""Accounts: users, passwords, tokens, quotas, admitted addresses, mail. Their HTTP form is in `api`."""
