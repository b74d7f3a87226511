"""Login and refresh policy, which provides a valid token for each request.

Access tokens are renewed before they expire. A refresh token is used for up to 90 refreshes or 90 days. Then the
password is required again. A refused token (401) is renewed only once. The first thread or process that acquires the
lock renews the token, and all others read the new token from the store.
"""

import logging
import threading
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from resources.enterprise import errors
from resources.enterprise.account.operations import AuthService, Grant, RefreshRefused, rules, weakness
from resources.enterprise.account.token_store import REFRESH_USES, Tokens, TokenStatus, TokenStore
from resources.enterprise.http.transport import Transport
from resources.enterprise.http.workarounds import guarded
from resources.enterprise.models import Quota, User

_log = logging.getLogger(__name__)

#: Time between refresh attempts while the service is unavailable and the old token is still valid.
_PAUSE = timedelta(minutes=1)


@guarded
class Authenticator:
    """Obtains, stores and revokes one account's tokens. Threads and processes share the stored tokens."""

    def __init__(self, transport: Transport, state: Path) -> None:
        self._service = service = transport.service
        self._store = TokenStore(state / "tokens.json", service.auth_url, service.username)
        self._clock = transport.clock.local
        self.redactor = transport.redactor
        self.redactor.learn(service.password)
        #: The configured password, until a new password is set.
        self._password = service.password
        self._calls = AuthService(transport)
        self._post = self._calls.post
        self._paused_until: datetime | None = None
        self._is_unknown_logged = False
        self._mutex = threading.Lock()  # threads wait on this lock instead of polling the lock file

    def access_token(self) -> str:
        """Return a valid token for the next request, from the store, a refresh or a login.

        Raises AuthenticationError, or ServiceUnavailable if the service does not respond and no valid token is stored.
        """
        # stored tokens are read without a lock, which works on a read-only file system
        tokens = self._read()
        if tokens is not None and self._usable(tokens):
            return tokens.access_token
        with self._mutex, self._store.locked():
            tokens = self._read()
            if tokens is None or not self._usable(tokens):
                try:
                    tokens = self._obtain(tokens)
                except (errors.ServiceUnavailable, errors.RateLimited) as error:
                    if tokens is None or not tokens.is_valid(self._clock()):
                        raise
                    self._paused_until = self._clock() + _PAUSE
                    _log.warning(
                        "The token could not be refreshed. The old token is still valid and remains in use: %s", error
                    )
            return tokens.access_token

    def renew(self, refused: str) -> str:
        """Return a token that differs from the refused token. Raises the same errors as `access_token`."""
        with self._mutex, self._store.locked():
            tokens = self._read()
            if tokens is None or tokens.access_token == refused or not tokens.is_valid(self._clock()):
                tokens = self._obtain(tokens)
            return tokens.access_token

    def login(self, password: str | None = None) -> TokenStatus:
        """Log in with the password, regardless of stored tokens, and store the new tokens.

        Raises AuthenticationError, or NewPasswordRequired if a new password must be set first.
        """
        with self._mutex, self._store.locked():
            self._log_in(self._need_password(password))
        return self.status()

    def refresh(self) -> TokenStatus:
        """Obtain a new access token immediately, with the refresh token or, if that token is used up, by logging in."""
        with self._mutex, self._store.locked():
            self._obtain(self._read())
        return self.status()

    def revoke(self) -> TokenStatus:
        """Revoke the stored refresh token at the service, and delete all stored tokens.

        Access tokens obtained by refreshing are revoked as well. An access token obtained by logging in can remain
        valid until it expires.
        """
        with self._mutex, self._store.locked():
            tokens = self._read()
            if tokens is not None:
                try:
                    self._post("token-revoke", "revoke the refresh token", refresh_token=tokens.refresh_token)
                except errors.AuthenticationError:
                    _log.info("The refresh token was already invalid.")
            self._store.clear()
        return self.status()

    def status(self) -> TokenStatus:
        """Return the state of the stored tokens without sending a request."""
        return self._store.status(self._read())

    def now(self) -> datetime:
        """Current time as an aware datetime, from which token ages are calculated."""
        return self._clock()

    def user(self) -> User:
        """Return the account's groups and counters, as reported by `POST /v1/get-user`. Raises EnterpriseError."""
        read = partial(self._post, "get-user", "read the account's quotas", User)
        token = self.access_token()
        try:
            user: User = read(access_token=token)
        except errors.AuthenticationError:
            user = read(access_token=self.renew(token))
        return user

    def known_user(self) -> User | None:
        """Return the account's groups and counters, or None if they are unknown. A warning is logged only once.

        The underlying operation is undocumented, so features must also work without this data. Raises EnterpriseError
        if no token can be obtained or the service cannot be reached.
        """
        if self._service.anonymous:
            return None
        self.access_token()
        try:
            return self.user()
        except (errors.UnreachableError, errors.StateError):
            raise
        except errors.EnterpriseError as error:
            level = logging.DEBUG if self._is_unknown_logged else logging.WARNING
            _log.log(level, "The account's groups and quotas are unknown, so no limit is assumed: %s", error)
            self._is_unknown_logged = True
            return None

    def quotas(self) -> dict[str, Quota]:
        """Return the counters by product. Absent counters have no known limit. Raises the errors of `known_user`."""
        user = self.known_user()
        return {} if user is None else user.quotas

    def forgot_password(self) -> None:
        """Request a confirmation code, which is sent to the account's email address."""
        username, refused = self._need_username(), "Check the spelling of the user name."
        self._post("forgot-password", f"request a code for {username}", refused=refused, username=username)

    def confirm_password(self, code: str, password: str) -> None:
        """Set a new password with the emailed code. Raises AuthenticationError if the service refuses the change."""
        username = self._need_username()
        self._post(
            "forgot-password-confirm",
            f"set the password of {username}",
            refused=f"Check the code, or request a new code with `wme auth forgot-password`. {rules(password)}",
            username=username,
            password=password,
            confirmation_code=code,
        )
        self._password = password

    def change_password(self, previous: str, proposed: str) -> None:
        """Change the password. Stored tokens remain valid. Raises AuthenticationError if the change is refused."""
        configured = self._password
        self._password = configured or previous  # used for a login if no token is stored
        try:
            self.known_user()  # the service refuses a revoked token with the same message as a wrong password
            # the service returns the same message for a wrong password and for a weak password
            self._post(
                "change-password",
                "change the password",
                refused=f"{'' if weakness(proposed) else 'Check the previous password. '}{rules(proposed)}",
                access_token=self.access_token(),
                previous_password=previous,
                proposed_password=proposed,
            )
        except errors.EnterpriseError:
            self._password = configured
            raise
        self._password = proposed

    def new_password(self, proposed: str, password: str | None = None) -> TokenStatus:
        """Answer the last login's challenge, set the new password, and store the tokens.

        This method uses that login's stored session. If the session is no longer valid, a login with the old password
        starts a new session.

        Raises:
            AuthenticationError: The new password breaks the rules, or a login needs the unknown old password.
            InvalidRequest: The service does not require a new password. The account is logged in.
        """
        username = self._need_username()
        with self._mutex, self._store.locked():
            if (session := self._store.read_session()) is not None:
                try:
                    return self._answer(username, session, proposed)
                except errors.AuthenticationError as error:
                    # another login distinguishes an expired session from a weak password
                    if weakness(proposed):
                        raise
                    if password is None and self._password is None:
                        raise errors.AuthenticationError(
                            f"{error.message} If you last logged in a few minutes ago, log in again: `wme auth login`.",
                            status=error.status,
                        ) from None
            answer = self._calls.login(username, self._need_password(password))
            if not isinstance(answer, Grant):
                self._store.write_session(session := answer.session or "")
                return self._answer(username, session, proposed)
            self._keep(answer)
        raise errors.InvalidRequest(
            f"The service does not require a new password for {username}. The password is unchanged and the account "
            "is logged in. To change it anyway, run `wme auth change-password`."
        )

    def _answer(self, username: str, session: str, proposed: str) -> TokenStatus:
        doing = f"set the new password for {username}"
        grant = self._post(
            "new-password-required",
            doing,
            Grant,
            # the service returns the same message for an expired session and for a weak password
            refused=f"{rules(proposed)} Run `wme auth new-password` again.",
            username=username,
            session=session,
            new_password=proposed,
        )
        if grant.refresh_token is None:
            raise errors.UnexpectedAnswer(
                f"Could not {doing}: the response contains no refresh token. The password might have been set: try "
                "`wme auth login` with the new password."
            )
        self._keep(grant)
        self._password = proposed
        return self.status()

    def _usable(self, tokens: Tokens) -> bool:
        now = self._clock()
        if self._paused_until is not None and now < self._paused_until:
            return tokens.is_valid(now)
        return tokens.is_fresh(now)

    def _read(self) -> Tokens | None:
        tokens = self._store.read()
        if tokens is not None:
            self.redactor.learn(tokens.access_token, tokens.refresh_token)
        return tokens

    def _obtain(self, tokens: Tokens | None) -> Tokens:
        """Obtain new tokens by refreshing if possible, otherwise by logging in. The caller must hold the lock."""
        username = self._need_username()
        why = "No token is stored"
        if tokens is not None:
            why = "The refresh token is used up or expired"
            if tokens.refresh_count < REFRESH_USES and self._clock() < tokens.refresh_expires_at:
                try:
                    doing, refresh = f"refresh the token of {username}", tokens.refresh_token
                    grant = self._post("token-refresh", doing, Grant, username=username, refresh_token=refresh)
                except RefreshRefused as error:
                    _log.info("Logging in again: %s", error)
                    why = "The refresh token was refused (expired, revoked or used up)"
                else:
                    refreshed = self._keep(grant, tokens)
                    _log.info(
                        "Refreshed the token of %s (use %d of %d).", username, refreshed.refresh_count, REFRESH_USES
                    )
                    return refreshed
        if self._password is None:
            raise errors.TokenSpent(
                f"{why} for {username}, and no password is configured. Nothing was fetched. Existing data is kept. Run "
                "`wme auth login`, or set WME_PASSWORD."
            )
        return self._log_in(self._password)

    def _log_in(self, password: str) -> Tokens:
        username = self._need_username()
        answer = self._calls.login(username, password)
        if isinstance(answer, Grant):
            _log.info("Logged in as %s.", username)
            return self._keep(answer)
        if answer.challenge_name == "NEW_PASSWORD_REQUIRED":
            self._store.write_session(answer.session or "")
            raise errors.NewPasswordRequired(
                f"The service requires {username} to set a new password before it issues tokens. Nothing was fetched. "
                "Existing data is kept. Run `wme auth new-password`."
            )
        challenge = self.redactor.clean((answer.challenge_name or "")[:50])
        raise errors.UnexpectedAnswer(
            f"The service requires {username} to answer the challenge {challenge}, which this client does not support. "
            "Nothing was fetched. Existing data is kept. Log in once on the vendor's dashboard."
        )

    def _keep(self, grant: Grant, old: Tokens | None = None) -> Tokens:
        """Store the tokens from a login, or from a refresh of the old tokens."""
        now = self._clock()
        expires_at = now + timedelta(seconds=grant.expires_in)
        access = {"access_token": grant.access_token, "access_obtained_at": now, "access_expires_at": expires_at}
        if old is not None:
            tokens = old.model_copy(update=access | {"refresh_count": old.refresh_count + 1})
        else:
            refresh = {"refresh_token": grant.refresh_token, "refresh_obtained_at": now}
            tokens = Tokens.model_validate(access | refresh)
        self._store.write(tokens)
        return tokens

    def _need_username(self) -> str:
        if self._service.username is None:
            raise errors.AuthenticationError(
                "No account is configured. Nothing was sent. Set WME_USERNAME and WME_PASSWORD, or WME_ANONYMOUS=1 "
                "if the service accepts this machine's IP address without an account."
            )
        return self._service.username

    def _need_password(self, given: str | None) -> str:
        password = given or self._password
        if password is None:
            raise errors.AuthenticationError(
                f"No password is configured for {self._need_username()}. Nothing was sent. Set WME_PASSWORD, or run "
                "`wme auth login` and enter the password."
            )
        return password
