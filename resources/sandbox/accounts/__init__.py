"""Accounts: users, passwords, tokens, quotas, admitted addresses, mail. `api` has their HTTP operations."""
