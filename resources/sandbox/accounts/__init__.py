"""Users, passwords, tokens, quotas, admitted addresses and mail. `api` has the HTTP operations for accounts."""
