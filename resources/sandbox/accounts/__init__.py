"""Users, passwords, tokens, quotas, admitted addresses and mail. `api` contains the HTTP operations for accounts."""
