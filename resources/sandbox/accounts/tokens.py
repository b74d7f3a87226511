"""Access, ID and refresh tokens as RS256 JSON web tokens, signed with a key in the state folder.

This module checks a token's format, signature, client and age. `accounts` checks the number of uses and revocation.

Source: the service's authentication documentation. Error messages are those of the token library in the service's
public source code.
"""

from __future__ import annotations

import base64
import binascii
import json
import uuid
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from resources.sandbox.accounts.users import ACCESS_TOKEN_SECONDS, User
from resources.sandbox.clock import Clock
from resources.sandbox.files import write_private

_CLIENT_ID = "2r0v5o1fsandboxclient0local"
_ISSUER_PATH = "/pool"


class TokenRefusedError(Exception):
    """The token is invalid. The error message is the message of the 401 response."""


class TokenExpiredError(TokenRefusedError):
    """The token has expired."""


class TokenMint:
    """Signer and verifier of tokens. The signing key is stored in the state folder with mode 0600."""

    def __init__(self, state: Path, clock: Clock, issuer: str) -> None:
        """Read or create the signing key in `state`. A key that is not an RSA key raises TypeError."""
        self._clock = clock
        self._issuer = issuer + _ISSUER_PATH
        pem = _private_key(state / "signing-key.pem")
        # checking an RSA key's numbers takes 40 ms of a processor, and the sandbox itself created the key
        key = serialization.load_pem_private_key(pem, password=None, unsafe_skip_rsa_key_validation=True)
        if not isinstance(key, rsa.RSAPrivateKey):
            raise TypeError(
                f"{state / 'signing-key.pem'} is not an RSA key. Delete it, and the sandbox will create a new key."
            )
        self._private = key
        self._public = key.public_key()
        numbers = self._public.public_numbers()
        self._jwk = {"kty": "RSA", "alg": "RS256", "use": "sig", "n": _base64url(numbers.n), "e": _base64url(numbers.e)}
        self._kid = str(uuid.uuid5(uuid.NAMESPACE_URL, self._jwk["n"]))

    @property
    def key_set(self) -> dict[str, Any]:
        """Return the public key as a JSON web key set (`{iss}/.well-known/jwks.json`)."""
        return {"keys": [{"kid": self._kid, **self._jwk}]}

    def access_token(self, user: User, origin: str) -> tuple[str, str]:
        """Return a signed access token and its identifier (`jti`). `origin` identifies the token's refresh token."""
        identifier = str(uuid.uuid4())
        claims = {**self._claims(user, origin, "access"), "client_id": _CLIENT_ID, "username": user.username}
        return self._sign({**claims, "jti": identifier}), identifier

    def id_token(self, user: User, origin: str) -> str:
        """Return a signed ID token, which identifies the user but does not grant access to data."""
        claims = self._claims(user, origin, "id")
        identity = {"aud": _CLIENT_ID, "cognito:username": user.username, "email": user.email, "email_verified": True}
        return self._sign({**claims, "jti": str(uuid.uuid4()), **identity})

    def refresh_token(self, user: User, life: timedelta) -> str:
        """Return a signed refresh token. The token has no client ID, so it does not grant access to data."""
        now = self._clock.now()
        return self._sign(
            {
                "sub": user.subject,
                "iss": self._issuer,
                "token_use": "refresh",
                "jti": str(uuid.uuid4()),
                "username": user.username,
                "iat": _seconds(now),
                "exp": _seconds(now + life),
            }
        )

    def verify(self, token: str) -> dict[str, Any]:
        """Check an access token's format, key, signature, age and client, and return its claims."""
        if token.count(".") != 2:
            raise TokenRefusedError("token contains an invalid number of segments")
        header = _decode_segment(token.split(".", maxsplit=1)[0])
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or not algorithm.startswith("RS"):
            raise TokenRefusedError(f"unexpected signing method: {algorithm}")
        kid = header.get("kid")
        if not isinstance(kid, str):
            raise TokenRefusedError("kid header not found")
        if kid != self._kid:
            raise TokenRefusedError("key not found")
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                self._public,
                algorithms=["RS256"],
                # age and client are checked below with the sandbox's clock and the service's rules
                options={"verify_exp": False, "verify_aud": False, "verify_iat": False},
            )
        except jwt.InvalidTokenError:
            raise TokenRefusedError("crypto/rsa: verification error") from None
        if int(self._clock.now().timestamp()) >= int(claims["exp"]):
            raise TokenExpiredError("Jwt is expired")
        if claims.get("client_id") != _CLIENT_ID:
            raise TokenRefusedError("incorrect client id")
        return claims

    def _claims(self, user: User, origin: str, use: str) -> dict[str, Any]:
        now = self._clock.now()
        return {
            "sub": user.subject,
            "cognito:groups": list(user.groups),
            "iss": self._issuer,
            "origin_jti": origin,
            "event_id": str(uuid.uuid5(uuid.NAMESPACE_OID, user.username)),
            "token_use": use,
            "scope": "aws.cognito.signin.user.admin",
            "auth_time": _seconds(now),
            "iat": _seconds(now),
            "exp": _seconds(now) + ACCESS_TOKEN_SECONDS,
        }

    def _sign(self, claims: dict[str, Any]) -> str:
        return jwt.encode(claims, self._private, algorithm="RS256", headers={"kid": self._kid})


def _private_key(path: Path) -> bytes:
    if path.exists():
        return path.read_bytes()
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    write_private(path, pem)
    return pem


def _decode_segment(segment: str) -> dict[str, Any]:
    try:
        value = json.loads(base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4)))
    except (binascii.Error, ValueError):
        value = None
    if not isinstance(value, dict):
        raise TokenRefusedError("illegal base64 data at input byte 0")
    return value


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())


def _base64url(number: int) -> str:
    return base64.urlsafe_b64encode(number.to_bytes((number.bit_length() + 7) // 8, "big")).rstrip(b"=").decode()
