"""The account: operations of the authentication host, tokens, and the token file shared by all processes."""
