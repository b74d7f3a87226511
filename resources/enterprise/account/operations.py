"""Requests to the service's password, token and account operations.

Source: the service's reference for authentication (`/v1/login` to `/v1/new-password-required`, `/v1/get-user`).
"""

from typing import Any

from pydantic import BaseModel, Field, TypeAdapter

from resources.enterprise import errors
from resources.enterprise.account.token_store import LONGEST_TOKEN, REFRESH_LIFE, Token
from resources.enterprise.http.answers import Answer
from resources.enterprise.http.transport import Transport

_RULES = (
    "A new password must have at least 8 characters, including an uppercase letter, a lowercase letter, a digit and a "
    "symbol."
)


class RefreshRefused(errors.AuthenticationError):
    """The refresh token has expired, was revoked, or has been used 90 times. A new login is required."""


class Login(BaseModel):
    """Tokens, or the challenge to answer before the service issues them. A session is valid for a few minutes.

    `expires_in` is the access token's lifetime in seconds, by default a day as documented. It cannot outlive the
    refresh token.
    """

    access_token: Token | None = Field(default=None, repr=False)
    refresh_token: Token | None = Field(default=None, repr=False)
    expires_in: float = Field(default=86_400.0, gt=0, le=REFRESH_LIFE.total_seconds(), allow_inf_nan=False)
    challenge_name: str | None = Field(default=None, max_length=100)
    session: str | None = Field(default=None, max_length=LONGEST_TOKEN, repr=False)


class Grant(Login):
    """Issued tokens. A refresh returns no new refresh token."""

    access_token: Token = Field(repr=False)


class AuthService:
    """Client for the authentication host. Refusals raise an EnterpriseError."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def login(self, username: str, password: str) -> Login:
        """Log in (`POST /v1/login`). Return a `Grant`, or a `Login` with a challenge that must be answered first.

        Raises AuthenticationError if the service refuses the user name or the password.
        """
        doing = f"log in as {username}"
        refused = "Check WME_USERNAME and WME_PASSWORD, or run `wme auth forgot-password`."
        found: Login = self.post("login", doing, Login, refused=refused, username=username, password=password)
        if found.access_token is not None and found.refresh_token is not None:
            return Grant.model_validate(found, from_attributes=True)
        if found.challenge_name is not None:
            return found
        raise errors.UnexpectedAnswer(
            f"Could not {doing}: the response contains neither tokens nor a challenge. Nothing was changed. Check the "
            "service's address (WME_AUTH_URL)."
        )

    def post(
        self,
        path: str,
        doing: str,
        form: type[BaseModel] | None = None,
        *,
        refused: str = "",
        **fields: str,
    ) -> Any:
        """Call the operation `/v1/{path}`, and parse the response unless `form` is None.

        All fields are secrets, except the user name. An access token is sent in the body and in the header. `refused`
        is the advice for a 401 response and, if the advice contains the password rules, for a 422 response.
        """

        def read(answer: Answer) -> Any:
            if answer.status not in {200, 204}:
                raise self._refusal(answer, path, doing, refused)
            if form is None:
                return None
            found = self._transport.parse(answer, TypeAdapter(form), doing)
            if isinstance(found, Login):
                learn(found.access_token, found.refresh_token, found.session)
            return found

        learn = self._transport.redactor.learn
        learn(*(value for name, value in fields.items() if name != "username"))
        url, token = f"{self._transport.service.auth_url}/v1/{path}", fields.get("access_token")
        reaching = f"reach the authentication service (/v1/{path})"
        return self._transport.ask("POST", url, read, doing=reaching, body=fields, token=token)

    def _refusal(self, answer: Answer, path: str, doing: str, refused: str) -> errors.EnterpriseError:
        status, kept = answer.status, "Nothing was changed."
        if path == "token-refresh" and status in {401, 403, 429}:  # 429: the refresh token is used up
            why = "was used 90 times" if status == 429 else "has expired or was revoked"
            return RefreshRefused(
                f"Could not {doing}: the refresh token {why}. {kept} Log in again with `wme auth login`.", status=status
            )
        if not refused or not (status == 401 or (status == 422 and _RULES in refused)):
            return self._transport.error(answer, doing)
        said = self._transport.said(answer)
        if answer.request_count > 1 and _RULES in refused:
            kept = (
                "The response to the previous attempt was lost. If that attempt set the password, you can log in with "
                "the new password."
            )
        return (errors.AuthenticationError if status == 401 else errors.InvalidRequest)(
            f"Could not {doing}: the service responded with status {status}{f' ({said})' if said else ''}. {kept} "
            f"{refused}",
            status=status,
        )


def weakness(password: str) -> str | None:
    """List the service's password rules that a password breaks, or return None if it breaks none."""
    rules = {
        "8 characters": len(password) >= 8,
        "an uppercase letter": any(c.isupper() for c in password),
        "a lowercase letter": any(c.islower() for c in password),
        "a digit": any(c.isdigit() for c in password),
        "a symbol": any(not c.isalnum() for c in password),
    }
    return ", ".join(what for what, holds in rules.items() if not holds) or None


def rules(password: str) -> str:
    """Return the password rules as a sentence. Rules that this password breaks are listed first."""
    lacks = weakness(password)
    return _RULES if lacks is None else f"The new password does not contain {lacks}. {_RULES}"
