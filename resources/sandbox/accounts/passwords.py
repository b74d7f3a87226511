"""Passwords: how they are kept, and which are good enough.

Source: the service publishes no policy; this is the default of the user pool that its public source stands on.
"""

from __future__ import annotations

import hashlib
import os


def hash_password(password: str, salt: bytes | None = None) -> tuple[bytes, bytes]:
    """Salt and digest of a password; without a salt, under a new one."""
    salt = os.urandom(16) if salt is None else salt
    # Cheap on purpose: these accounts open a sandbox on loopback, and tests log in often.
    return salt, hashlib.scrypt(password.encode(), salt=salt, n=1024, r=8, p=1)


def policy_violation(password: str) -> str | None:
    """What a password lacks, in the user pool's words; None when it has 8 characters, both cases, a digit, a symbol."""
    for holds, text in (
        (len(password) >= 8, "Password not long enough"),
        (any(c.isupper() for c in password), "Password must have uppercase characters"),
        (any(c.islower() for c in password), "Password must have lowercase characters"),
        (any(c.isdigit() for c in password), "Password must have numeric characters"),
        (any(not c.isalnum() for c in password), "Password must have symbol characters"),
    ):
        if not holds:
            return text
    return None
