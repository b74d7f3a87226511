"""`wme auth`: the account and its tokens.

The work is in `resources/enterprise`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pipelines.cli import Group, options, terminal
from pipelines.cli.secret_input import CODE, NEW_PASSWORD, PASSWORD, Unargued, from_stdin, secrets
from pipelines.report.account import account_json, account_text, tokens_text
from resources.enterprise.errors import DiskFull, StateError
from resources.settings import read as read_settings

if TYPE_CHECKING:
    from pipelines.cli.secret_input import Wanted
    from resources.enterprise import EnterpriseClient

_DONE = "The new password is set. Stored tokens stay valid. Update WME_PASSWORD."


class _Writing(options.Writing, Unargued):
    pass


class _Auth(Group):
    command_class = _Writing


@click.group(cls=_Auth)
def auth() -> None:
    """Manage the account: log in, show or revoke the tokens, change the password.

    Passwords and codes are never arguments. They are typed at a prompt that does not show them, or come from a variable
    (WME_PASSWORD, WME_NEW_PASSWORD, WME_CODE), or from standard input with --password-stdin.
    """


@auth.command()
@from_stdin
def login(*, stdin: bool) -> None:
    """Log in with WME_USERNAME and WME_PASSWORD. All processes that use this data folder share the tokens."""
    with options.client(read_settings(scoped=False), writes=True) as client:
        password, _ = _with_password(client, stdin=stdin)
        client.account.login(password)
        _show_tokens(client)


@auth.command("status", cls=Unargued)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def auth_status(*, as_json: bool) -> None:
    """Show how long the tokens are valid and, when logged in, the account's groups and the quota left."""
    with options.client(read_settings(scoped=False)) as client:
        status = client.account.status()
        if not as_json:
            _show_tokens(client)
        try:
            user = client.account.known_user() if status.logged_in else None
        except (DiskFull, StateError) as error:
            # a new token is needed and cannot be stored; what is stored is known all the same
            terminal.warn(f"The account's groups and quota are unknown. {error}")
            user = None
        if as_json:
            # asking for the account may have renewed the token
            terminal.show_json(account_json(client.account.status(), user, client.account.now()))
        elif user is not None:
            terminal.say(account_text(user))


@auth.command()
def refresh() -> None:
    """Get a new access token with the refresh token, which is valid for 90 days and 90 uses."""
    with options.client(read_settings(scoped=False), writes=True) as client:
        client.account.refresh()
        _show_tokens(client)


@auth.command()
def revoke() -> None:
    """Revoke the refresh token and delete both tokens. The next request logs in again."""
    with options.client(read_settings(scoped=False), writes=True) as client:
        if not client.account.status().logged_in:
            terminal.OUT.print("There are no tokens to revoke: nobody is logged in from this data folder.")
            return
        client.account.revoke()
    terminal.OUT.print("Revoked. The next request logs in again.")


def _show_tokens(client: EnterpriseClient) -> None:
    terminal.say(tokens_text(client.account.status(), client.account.now()))


def _with_password(client: EnterpriseClient, *others: Wanted, stdin: bool) -> tuple[str | None, list[str]]:
    """The present password, asked for unless it is configured (None without an account), and the other secrets."""
    known = client.service.password
    if known is not None or client.service.username is None:
        return known, secrets(*others, stdin=stdin)
    password, *more = secrets(PASSWORD, *others, stdin=stdin)
    return password, more


@auth.command("forgot-password")
def forgot_password() -> None:
    """Request a confirmation code by e-mail (the sandbox writes it to its outbox folder)."""
    with options.client(read_settings(scoped=False), writes=True) as client:
        client.account.forgot_password()
    terminal.OUT.print("A confirmation code is on its way; set the new password with `wme auth confirm-password`.")


@auth.command("confirm-password")
@from_stdin
def confirm_password(*, stdin: bool) -> None:
    """Set a new password with a confirmation code. Asks for the code, then for the new password."""
    with options.client(read_settings(scoped=False), writes=True) as client:
        code, new = secrets(CODE, NEW_PASSWORD, stdin=stdin)
        client.account.confirm_password(code, new)
    terminal.OUT.print(_DONE)


@auth.command("change-password")
@from_stdin
def change_password(*, stdin: bool) -> None:
    """Change the password. Asks for the current one, unless WME_PASSWORD has it, then for the new one."""
    with options.client(read_settings(scoped=False), writes=True) as client:
        previous, [new] = _with_password(client, NEW_PASSWORD, stdin=stdin)
        client.account.change_password(previous or "", new)
    terminal.OUT.print(_DONE)


@auth.command("new-password")
@from_stdin
def new_password(*, stdin: bool) -> None:
    """Set the new password that the service demands (challenge NEW_PASSWORD_REQUIRED).

    Answers the challenge of the last `wme auth login`. If there is none, it asks for the current password first,
    unless WME_PASSWORD has it.
    """
    with options.client(read_settings(scoped=False), writes=True) as client:
        if client.account.status().new_password_required:
            previous, [new] = client.service.password, secrets(NEW_PASSWORD, stdin=stdin)
        else:
            previous, [new] = _with_password(client, NEW_PASSWORD, stdin=stdin)
        client.account.new_password(new, previous)
    terminal.OUT.print("The new password is set, and the account is logged in. Update WME_PASSWORD.")
