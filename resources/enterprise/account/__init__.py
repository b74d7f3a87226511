"""Account management: authentication operations, tokens, and the token file shared by all processes."""
