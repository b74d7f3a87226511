"""`wme auth` against the sandbox: every flow of passwords and tokens, and where secrets may come from."""

import json
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pytest

from pipelines import cli
from tests.e2e.conftest import ran
from tests.e2e.programs import bare

NEW_PASSWORD = "N3w-password!"
WEAK = "weakling1"
UNFIT = "The new password does not contain an uppercase letter, a symbol."


@pytest.fixture
def auth(call, environ):
    """Calls `wme auth`, with further variables by keyword; no secret may be told."""

    def run(*words, stdin="", **more):
        given = environ | more
        told = call("auth", *words, environ=given, stdin=stdin)
        secrets = {given[name] for name in ("WME_PASSWORD", "WME_NEW_PASSWORD", "WME_CODE") if given.get(name)}
        for secret in secrets | {line for line in stdin.splitlines() if len(line) > 5}:
            assert secret not in told.out + told.err
        assert told.code == 0 or told.out == ""
        return told

    return run


def stored(environ):
    path = Path(environ["WME_DATA"]) / "state" / "tokens.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    return json.loads(path.read_bytes())


def test_login_status_refresh_revoke(auth, account, environ):
    assert auth("status").out == f"Not logged in as {account.username}; the first request logs in.\n"
    auth("login", WME_PASSWORD="wrong-Passw0rd!").fails("or run `wme auth forgot-password`")
    told = auth("login", "--password-stdin", stdin=f"{account.password}\n", WME_PASSWORD="").done()
    assert told.out.startswith(f"Logged in as {account.username}. The access token lasts until ")
    assert "0 days old" in told.out
    assert "90 of its 90 uses are left" in told.out
    assert "Groups: group_3. Units left: chunk 10,000,000 of 10,000,000 (0 used); ondemand" in auth("status").out
    assert "89 of its 90 uses are left" in auth("refresh").out
    assert "89 of its 90 uses are left" in auth("status", WME_PASSWORD="").out
    assert auth("revoke").out == "The tokens were revoked. The next request logs in again.\n"
    assert not (Path(environ["WME_DATA"]) / "state" / "tokens.json").exists()
    assert "Not logged in" in auth("status").out
    again = auth("revoke").done()
    assert again.out == "There are no tokens to revoke, because no account is logged in for this data folder.\n"


def test_status_for_machines(auth, account, service, environ):
    status = json.loads(auth("status", "--json").out)
    assert (status["logged_in"], status["groups"], status["quotas"]) == (False, None, None)
    service.accounts.set_quota(account.username, "ondemand", limit=50, used=8)
    auth("login")
    tokens = stored(environ)
    stale = json.dumps(tokens | {"access_expires_at": tokens["access_obtained_at"]})
    (Path(environ["WME_DATA"]) / "state" / "tokens.json").write_text(stale)  # the command renews it
    status = json.loads(auth("status", "--json").out)
    assert (status["auth_url"], status["username"], status["logged_in"]) == (service.url, account.username, True)
    assert (status["groups"], status["quotas"]["ondemand"]) == (["group_3"], {"used": 8, "limit": 50, "left": 42})
    assert (status["refresh_token"]["uses"], status["refresh_token"]["uses_left"]) == (1, 89)
    assert 0 <= status["refresh_token"]["age_seconds"] < 3600
    lived = datetime.now(UTC) - datetime.fromisoformat(status["refresh_token"]["obtained_at"])
    assert timedelta(0) < lived < timedelta(hours=1)
    assert 89 * 86_400 < status["refresh_token"]["seconds_left"] <= 90 * 86_400
    assert 23 * 3600 < status["access_token"]["seconds_left"] <= 24 * 3600
    assert datetime.fromisoformat(status["access_token"]["expires_at"]).tzinfo is not None


def test_a_forgotten_password(auth, account, service):
    auth("forgot-password").done("`wme auth confirm-password`")
    code = service.accounts.outbox(account.username)[-1].secret
    told = auth("confirm-password", WME_CODE="000000x", WME_NEW_PASSWORD=NEW_PASSWORD)
    assert (told.code, "Check the code" in told.err, "CodeMismatch" in told.err) == (1, True, True)
    told = auth("confirm-password", WME_CODE=code, WME_NEW_PASSWORD=WEAK)
    assert (told.code, "InvalidPasswordException" in told.err, "at least 8 characters" in told.err) == (1, True, True)
    assert "The new password does not contain an uppercase letter, a symbol." in told.err
    assert auth("confirm-password", "--password-stdin", stdin=f"{code}\n{NEW_PASSWORD}\n").code == 0
    assert (auth("login").code, auth("login", WME_PASSWORD=NEW_PASSWORD).code) == (1, 0)
    told = auth("confirm-password", WME_CODE=code, WME_NEW_PASSWORD="0ther-Password!")
    assert (told.code, "ExpiredCodeException" in told.err) == (1, True)
    auth("forgot-password")
    code = service.accounts.outbox(account.username)[-1].secret
    service.accounts._database.change("UPDATE codes SET issued_at = issued_at - 3601")
    told = auth("confirm-password", WME_CODE=code, WME_NEW_PASSWORD=NEW_PASSWORD)
    assert (told.code, "`wme auth forgot-password`" in told.err) == (1, True)


def test_a_changed_password_leaves_the_tokens(auth, account, environ, service):
    auth("login")
    before = stored(environ)
    told = auth("change-password", WME_PASSWORD="Wr0ng-password!", WME_NEW_PASSWORD=NEW_PASSWORD)
    told.fails("Check the previous password")
    auth("change-password", WME_NEW_PASSWORD=WEAK).fails(UNFIT)
    auth("change-password", WME_NEW_PASSWORD="Ab1-").fails("The new password does not contain 8 characters.")
    # blank lines at the end are no surplus
    told = auth("change-password", "--password-stdin", stdin=f"{NEW_PASSWORD}\r\n\n").done()
    assert told.out == "The new password has been set. Stored tokens stay valid. Update WME_PASSWORD.\n"
    # three refusals bought no token, and what is valid was kept
    assert stored(environ) == before
    assert (auth("status", WME_PASSWORD="").code, auth("login").code) == (0, 1)
    assert auth("login", WME_PASSWORD=NEW_PASSWORD).code == 0
    # and with a token that was revoked
    service.accounts.revoke_access(account.username)
    assert auth("change-password", WME_PASSWORD=NEW_PASSWORD, WME_NEW_PASSWORD="0ther-Password!").code == 0


@pytest.fixture
def invited(account, service, tmp_path, call):
    """Calls `wme auth` for an account whose temporary password must be replaced."""
    name = f"{account.username}-new"
    service.accounts.create(name, "Temporary-1!", groups=["group_3"], temporary=True)
    environ = account.environ(tmp_path / "invited", WME_USERNAME=name, WME_PASSWORD="Temporary-1!")

    def run(*words, **more):
        return call("auth", *words, environ=environ | more)

    run.environ = environ
    return run


def sessions(service):
    return sum(seen.path == "/v1/login" for seen in service.requests)


def test_the_challenge_of_a_login_is_answered(invited, service):
    invited("login").fails("Run `wme auth new-password`.")
    assert stored(invited.environ)["challenge"]
    assert "The service requires a new password: run `wme auth new-password`." in invited("status").out
    assert json.loads(invited("status", "--json").out)["new_password_required"] is True
    service.requests.clear()
    # with the session that was kept: no old password is needed, and a weak new one does not spend it
    invited("new-password", WME_NEW_PASSWORD=WEAK).fails(UNFIT)
    invited("new-password", WME_PASSWORD="", WME_NEW_PASSWORD=NEW_PASSWORD).done()
    assert sessions(service) == 0
    assert "challenge" not in stored(invited.environ)
    assert "90 of its 90 uses are left" in invited("status", WME_PASSWORD=NEW_PASSWORD).out
    told = invited("new-password", WME_PASSWORD=NEW_PASSWORD, WME_NEW_PASSWORD="0ther-Password!")
    told.fails("does not require", "`wme auth change-password`")


def test_a_challenge_that_has_expired(invited, service):
    invited("login")
    service.accounts._database.change("UPDATE sessions SET issued_at = issued_at - 181")
    told = invited("new-password", WME_PASSWORD="", WME_NEW_PASSWORD=NEW_PASSWORD)
    told.fails("If you last logged in a few minutes ago, log in again: `wme auth login`.")
    service.requests.clear()
    # where the old password is known, another login brings another session
    assert (invited("new-password", WME_NEW_PASSWORD=NEW_PASSWORD).code, sessions(service)) == (0, 1)


def test_no_option_takes_a_secret():
    for name, command in cli.wme.get_command(None, "auth").commands.items():
        for parameter in command.params:
            assert isinstance(parameter, click.Option), name
            assert parameter.is_flag, f"wme auth {name} {parameter.name}"


def test_what_is_typed_as_an_argument_is_not_repeated(auth):
    for words in (("login", "Secret-0!"), ("confirm-password", "123456", "Secret-0!")):
        told = auth(*words).fails("--password-stdin", code=2)
        assert "Secret-0!" not in told.err
        assert "123456" not in told.err


@pytest.mark.parametrize(
    ("command", "variable"),
    [("change-password", "WME_NEW_PASSWORD"), ("confirm-password", "WME_CODE"), ("new-password", "WME_NEW_PASSWORD")],
)
def test_without_a_terminal_a_variable_or_standard_input_is_named(auth, command, variable):
    auth(command).fails(f"Set {variable}, or use --password-stdin", code=2)
    auth(command, "--password-stdin").fails("Standard input contains no ", f"or set {variable}.", code=2)
    auth("login", WME_PASSWORD="").fails("Set WME_PASSWORD", code=2)


@pytest.mark.parametrize(
    ("command", "more", "lines"),
    [
        ("change-password", {}, ["{password}", NEW_PASSWORD]),
        ("change-password", {"WME_NEW_PASSWORD": NEW_PASSWORD}, ["0ther-Password!"]),
        ("change-password", {"WME_PASSWORD": ""}, ["{password}", NEW_PASSWORD, "0ther-Password!"]),
        ("change-password", {}, ["x" * 4_096 + NEW_PASSWORD, NEW_PASSWORD]),
        ("confirm-password", {"WME_CODE": "123456"}, ["123456", NEW_PASSWORD]),
        ("new-password", {}, ["{password}", NEW_PASSWORD]),
        ("login", {}, ["0ther-Password!"]),
    ],
)
def test_surplus_lines_are_refused_and_nothing_is_sent(auth, account, service, command, more, lines):
    stdin = "\n".join(line.format(password=account.password) for line in lines) + "\n"
    auth(command, "--password-stdin", stdin=stdin, **more).fails("contains too many lines", "Nothing was sent", code=2)
    assert (list(service.requests), auth("login").code) == ([], 0)


def test_standard_input_that_is_not_text_is_refused(account, environ, tmp_path):
    environ |= {"WME_PASSWORD": "", "PYTHONUTF8": "1", "PYTHONIOENCODING": "utf-8:strict"}
    for words in (("auth", "login", "--password-stdin"), ("sql",)):
        given = {"input": "\udcff\udcfe\n", "errors": "surrogateescape"}
        told = ran(sys.executable, "-m", "pipelines", *words, environ=bare() | environ, **given)
        told.fails("Standard input is not UTF-8 text. Nothing was", code=2)


def test_a_terminal_asks_and_shows_nothing(account, environ, on_terminal):
    answers = {"Password": account.password, "New password": NEW_PASSWORD, "Repeat the new password": NEW_PASSWORD}
    environ |= {"WME_PASSWORD": ""}
    text = on_terminal("auth", "change-password", environ=environ, columns=200, answers=answers)
    assert "The new password has been set." in text
    for answer in answers.values():
        assert answer not in text
