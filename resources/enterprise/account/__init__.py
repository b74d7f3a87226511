"""The account: its operations at the authentication host, its tokens, and the file that all processes share them by."""
