"""The `wme auth` commands for the account and its tokens, and the prompts for passwords and codes.

Secrets come from an environment variable, from standard input, or from a terminal prompt without echo. Secrets are
never passed as arguments, because the shell history and the process list show arguments.
"""

import os
import sys
from datetime import datetime
from typing import Any, NamedTuple

import click

from pipelines.cli import Group, terminal
from resources import connection
from resources.enterprise import EnterpriseClient, TokenStatus
from resources.enterprise.errors import DiskFull, StateError
from resources.enterprise.models import User
from resources.settings import read as read_settings

_DONE = "The new password has been set. Stored tokens stay valid. Update WME_PASSWORD."


class Wanted(NamedTuple):
    """Secret that a command needs, with its environment variable. Prompts ask for new secrets twice."""

    name: str
    variable: str
    is_new: bool = False


PASSWORD = Wanted("password", "WME_PASSWORD")
NEW_PASSWORD = Wanted("new password", "WME_NEW_PASSWORD", is_new=True)
CODE = Wanted("confirmation code", "WME_CODE")

from_stdin = click.option(
    "--password-stdin",
    "stdin",
    is_flag=True,
    help="Read passwords and codes that are not in environment variables from standard input, one per line, in the "
    "order of the prompts.",
)


class Unargued(click.Command):
    """Command without arguments. Error messages omit unexpected arguments, because they might be passwords."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption:
            raise
        except click.UsageError:
            raise click.UsageError(
                f"`{ctx.command_path}` takes no arguments. A password or code in an argument would appear in the shell "
                "history and the process list. Use an environment variable, --password-stdin or the prompt. If you "
                "typed a password here, change it.",
                ctx,
            ) from None


def secrets(*wanted: Wanted, stdin: bool) -> list[str]:
    """Collect passwords and codes, in prompt order, from environment variables, standard input or the terminal."""
    found = {one: os.environ.get(one.variable, "") for one in wanted}
    if stdin:
        missing = [one for one, value in found.items() if not value]
        found |= zip(missing, _lines(missing), strict=True)
    return [value or _typed(one) for one, value in found.items()]


def _lines(wanted: list[Wanted]) -> list[str]:
    """Read one line from standard input for each secret. At a terminal, stop reading after these lines."""
    text = terminal.read(len(wanted))
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    while lines and not lines[-1]:
        del lines[-1]
    for place, one in enumerate(wanted):
        if not "".join(lines[place : place + 1]):
            raise click.UsageError(
                f"Standard input contains no {one.name}. Nothing was sent. Add the {one.name}, or set {one.variable}."
            )
    if len(lines) > len(wanted):
        names = " and ".join(f"the {one.name}" for one in wanted)
        raise click.UsageError(
            "Standard input contains too many lines: "
            f"{f'only {names}' if names else 'no secret'} should come from standard input. The other "
            "values come from environment variables (WME_PASSWORD, WME_NEW_PASSWORD, WME_CODE) or a stored login. "
            "Nothing was sent. Remove the extra lines, or unset the variable that should not apply."
        )
    return lines


def _typed(wanted: Wanted) -> str:
    """Prompt for a secret at the terminal, without echo."""
    if not sys.stdin.isatty():
        raise click.UsageError(
            f"The {wanted.name} is required, but there is no terminal for a prompt. Nothing was sent. Set "
            f"{wanted.variable}, or use --password-stdin and write the {wanted.name} to standard input."
        )
    repeat = f"Repeat the {wanted.name}" if wanted.is_new else False
    return str(click.prompt(wanted.name.capitalize(), hide_input=True, confirmation_prompt=repeat, err=True))


class _Auth(Group):
    command_class = type("Writing", (terminal.Writing, Unargued), {})


@click.group(cls=_Auth)
def auth() -> None:
    """Manage the account: log in, show or revoke the tokens, and change the password.

    Enter passwords and codes at a hidden prompt, in a variable (WME_PASSWORD, WME_NEW_PASSWORD, WME_CODE), or on
    standard input with --password-stdin, but never as arguments.
    """


@auth.command()
@from_stdin
def login(*, stdin: bool) -> None:
    """Log in with WME_USERNAME and WME_PASSWORD. All processes that use this data folder share the tokens."""
    with connection.client(read_settings(scoped=False)) as client:
        password, _ = _with_password(client, stdin=stdin)
        client.account.login(password)
        _show_tokens(client)


@auth.command("status", cls=Unargued)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def auth_status(*, as_json: bool) -> None:
    """Show the tokens' expiry times and, when logged in, the account's groups and remaining quota."""
    with connection.client(read_settings(scoped=False), writes=False) as client:
        status = client.account.status()
        if not as_json:
            _show_tokens(client)
        try:
            user = client.account.known_user() if status.logged_in else None
        except (DiskFull, StateError) as error:
            # a required new token could not be stored, but the stored token status is known
            terminal.warn(f"The account's groups and quota are unknown. {error}")
            user = None
        if as_json:
            # the account request might have renewed the token
            terminal.show_json(_account_json(client.account.status(), user, client.account.now()))
        elif user is not None:
            left = [
                f"{product} {'unlimited' if quota.left is None else f'{quota.left:,} of {quota.limit:,}'} "
                f"({quota.used:,} used)"
                for product, quota in sorted(user.quotas.items())
            ]
            terminal.say(
                f"Groups: {', '.join(user.groups or ()) or 'none'}. Units left: {'; '.join(left) or 'none reported'}. "
                "Hourly files cost no units."
            )


@auth.command()
def refresh() -> None:
    """Get a new access token with the refresh token, which is valid for 90 days and 90 uses."""
    with connection.client(read_settings(scoped=False)) as client:
        client.account.refresh()
        _show_tokens(client)


@auth.command()
def revoke() -> None:
    """Revoke the refresh token and delete both tokens. The next request logs in again."""
    with connection.client(read_settings(scoped=False)) as client:
        if not client.account.status().logged_in:
            terminal.OUT.print("There are no tokens to revoke, because no account is logged in for this data folder.")
            return
        client.account.revoke()
    terminal.OUT.print("The tokens were revoked. The next request logs in again.")


def _show_tokens(client: EnterpriseClient) -> None:
    terminal.say(client.account.status().sentence(client.account.now()))


def _with_password(client: EnterpriseClient, *others: Wanted, stdin: bool) -> tuple[str | None, list[str]]:
    """Return the password (or None if there is no account) and the other secrets. Prompt for missing secrets."""
    known = client.service.password
    if known is not None or client.service.username is None:
        return known, secrets(*others, stdin=stdin)
    password, *more = secrets(PASSWORD, *others, stdin=stdin)
    return password, more


@auth.command("forgot-password")
def forgot_password() -> None:
    """Request a confirmation code by e-mail. The sandbox writes the code to its outbox folder."""
    with connection.client(read_settings(scoped=False)) as client:
        client.account.forgot_password()
    terminal.OUT.print("A confirmation code was requested. Set the new password with `wme auth confirm-password`.")


@auth.command("confirm-password")
@from_stdin
def confirm_password(*, stdin: bool) -> None:
    """Set a new password with a confirmation code. Prompts for the code, then for the new password."""
    with connection.client(read_settings(scoped=False)) as client:
        code, new = secrets(CODE, NEW_PASSWORD, stdin=stdin)
        client.account.confirm_password(code, new)
    terminal.OUT.print(_DONE)


@auth.command("change-password")
@from_stdin
def change_password(*, stdin: bool) -> None:
    """Change the password. Prompts for the current password unless WME_PASSWORD is set, then for the new password."""
    with connection.client(read_settings(scoped=False)) as client:
        previous, [new] = _with_password(client, NEW_PASSWORD, stdin=stdin)
        client.account.change_password(previous or "", new)
    terminal.OUT.print(_DONE)


@auth.command("new-password")
@from_stdin
def new_password(*, stdin: bool) -> None:
    """Set the new password that the service requires (challenge NEW_PASSWORD_REQUIRED).

    Answers the challenge from the last `wme auth login`. If there is no challenge, the command first prompts for the
    current password, unless WME_PASSWORD is set.
    """
    with connection.client(read_settings(scoped=False)) as client:
        if client.account.status().new_password_required:
            previous, [new] = client.service.password, secrets(NEW_PASSWORD, stdin=stdin)
        else:
            previous, [new] = _with_password(client, NEW_PASSWORD, stdin=stdin)
        client.account.new_password(new, previous)
    terminal.OUT.print("The new password has been set, and the account is logged in. Update WME_PASSWORD.")


def _account_json(status: TokenStatus, user: User | None, now: datetime) -> dict[str, Any]:
    """Return the account's data as JSON values, with null for unknown and unlimited values."""
    obtained = status.refresh_obtained_at
    refresh = {"obtained_at": obtained, "age_seconds": obtained and round((now - obtained).total_seconds())}
    uses = {"uses": status.refreshes_used, "uses_left": status.refreshes_left}
    quotas = {} if user is None else dict(sorted(user.quotas.items()))
    return {
        **{name: getattr(status, name) for name in ("auth_url", "username", "logged_in", "new_password_required")},
        "access_token": _expiry(status.access_expires_at, now),
        "refresh_token": refresh | _expiry(status.refresh_expires_at, now) | uses,
        "groups": user and (user.groups or ()),
        "quotas": user and {name: {"used": q.used, "limit": q.limit, "left": q.left} for name, q in quotas.items()},
    }


def _expiry(moment: datetime | None, now: datetime) -> dict[str, Any]:
    return {"expires_at": moment, "seconds_left": moment and round((moment - now).total_seconds())}
