"""`wme auth`: the commands of the account, and how secrets reach them."""
