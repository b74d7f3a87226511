"""`wme auth`: the account and its tokens.

The work is in `resources/enterprise`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pipelines.cli import service, terminal
from pipelines.report.account import account_text, tokens_text
from pipelines.settings import read as read_settings

if TYPE_CHECKING:
    from resources.enterprise import EnterpriseClient


_new_password_option = click.option(
    "--password", "new", prompt=True, hide_input=True, confirmation_prompt=True, help="New password."
)


@click.group()
def auth() -> None:
    """Manage the account: log in, show or revoke the tokens, change the password."""


@auth.command()
def login() -> None:
    """Log in with WME_USERNAME and WME_PASSWORD. All processes that use this data folder share the tokens."""
    with service.client(read_settings()) as client:
        client.account.login()
        _show_tokens(client)


@auth.command("status")
def auth_status() -> None:
    """Show how long the tokens are valid and, when logged in, the account's groups and quotas."""
    with service.client(read_settings()) as client:
        _show_tokens(client)
        if client.account.status().logged_in:
            terminal.say(account_text(client.account.user()))


@auth.command()
def refresh() -> None:
    """Get a new access token with the refresh token, which is valid for 90 days and 90 uses."""
    with service.client(read_settings()) as client:
        client.account.refresh()
        _show_tokens(client)


@auth.command()
def revoke() -> None:
    """Revoke the refresh token and delete both tokens. The next request logs in again."""
    with service.client(read_settings()) as client:
        if not client.account.status().logged_in:
            terminal.OUT.print("There are no tokens to revoke: nobody is logged in from this data folder.")
            return
        client.account.revoke()
    terminal.OUT.print("Revoked. The next request logs in again.")


def _show_tokens(client: EnterpriseClient) -> None:
    terminal.say(tokens_text(client.account.status()))


@auth.command("forgot-password")
def forgot_password() -> None:
    """Request a confirmation code by e-mail (the sandbox writes it to its outbox folder)."""
    with service.client(read_settings()) as client:
        client.account.forgot_password()
    terminal.OUT.print("A confirmation code is on its way; set the new password with `wme auth confirm-password`.")


@auth.command("confirm-password")
@click.option("--code", prompt=True, help="Confirmation code.")
@_new_password_option
def confirm_password(*, code: str, new: str) -> None:
    """Set a new password with a confirmation code."""
    with service.client(read_settings()) as client:
        client.account.confirm_password(code, new)
    terminal.OUT.print("The new password is set. Update WME_PASSWORD.")


@auth.command("change-password")
@click.option(
    "--previous", envvar="WME_PASSWORD", prompt=True, hide_input=True, help="Old password; default: WME_PASSWORD."
)
@_new_password_option
def change_password(*, previous: str, new: str) -> None:
    """Change the password."""
    with service.client(read_settings()) as client:
        client.account.change_password(previous, new)
    terminal.OUT.print("The new password is set. Update WME_PASSWORD.")


@auth.command("new-password")
@_new_password_option
def new_password(*, new: str) -> None:
    """Set the new password that the service demands (challenge NEW_PASSWORD_REQUIRED)."""
    with service.client(read_settings()) as client:
        client.account.new_password(new)
    terminal.OUT.print("The new password is set. Update WME_PASSWORD.")
