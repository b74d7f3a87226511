"""Accounts: users, passwords, tokens, quotas, admitted addresses, mail. How they look over HTTP is in `api`."""
