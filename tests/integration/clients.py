"""Accounts of a sandbox, and how patient the clients are that use them."""

import itertools
from typing import Any

from resources.enterprise import RetryPolicy
from resources.sandbox import Sandbox

PASSWORD = "First-Pass-1!"
QUICK = RetryPolicy(retries=3, first_wait=0.002, longest_wait=0.01, connect_timeout=60, read_timeout=60)

_numbers = itertools.count(1)


def new_account(sandbox: Sandbox, *, group: str = "group_3", **more: Any) -> str:
    """The name of a new user with PASSWORD."""
    name = f"reader{next(_numbers)}"
    sandbox.accounts.create(name, PASSWORD, groups=(group,), **more)
    return name
