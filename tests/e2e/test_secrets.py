"""Passwords, tokens and signed URLs appear nowhere but in the token store, whatever fails or is logged.

Every logger is at its most verbose level while the service misbehaves, and repeats the secrets it was sent. Afterwards
everything is searched: the output, Dagster's history and logs, compressed or not, and the files of the data folder.
"""

import json
import os
import re
import sqlite3
import zlib

import pytest

from resources.sandbox.store.object_index import Signer
from tests.builds import lay
from tests.e2e.conftest import between
from tests.e2e.programs import PATIENCE_SECONDS, bare

#: Whatever looks like a token, or like the query of a signed address.
LOOKS_SECRET = re.compile(rb"eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{10,}|X-Amz-(?:Signature|Credential)")
TALKATIVE = "import logging, sys; logging.basicConfig(level=1, stream=sys.stderr); "
WME = TALKATIVE + "from pipelines.cli import main; sys.argv.insert(1, '-v'); main()"


class Secrets(set):
    """Everything that was secret, and how to find it."""

    def learn(self, *texts):
        self.update(text.encode() for text in texts if text)

    def found_in(self, content):
        found = [f"...{secret[-6:].decode()}" for secret in self if secret in content]
        return found + [match.decode()[:24] for match in set(LOOKS_SECRET.findall(content))]


@pytest.fixture
def secrets(account, monkeypatch):
    """The secrets of the account, and those that the sandbox hands out while the test runs."""
    secrets = Secrets()
    secrets.learn(account.password)
    accounts = account.sandbox.accounts
    for name in ("login", "refresh"):
        original = getattr(accounts, name)

        def watched(*arguments, _original=original):
            tokens = _original(*arguments)
            for secret in ("id_token", "access_token", "refresh_token", "session"):
                secrets.learn(getattr(tokens, secret, None))
            return tokens

        monkeypatch.setattr(accounts, name, watched)
    sign = Signer.sign

    def signed(*arguments, **options):
        address = sign(*arguments, **options)
        secrets.learn(re.findall(r"X-Amz-Signature=([0-9a-f]+)", address)[0])
        return address

    monkeypatch.setattr(Signer, "sign", signed)
    return secrets


def left_in(data):
    """Everything below a data folder but the token store; databases row by row, what is compressed also unpacked."""
    for path in sorted(data.rglob("*")):
        if not path.is_file() or path == data / "state" / "tokens.json":
            continue
        content = path.read_bytes()
        yield str(path.relative_to(data)), content
        if content.startswith(b"SQLite format 3\0"):
            with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
                for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                    for row in database.execute(f'SELECT * FROM "{table}"'):
                        for value in row:
                            yield f"{path.relative_to(data)}, table {table}", _plain(value)
            database.close()


def _plain(value):
    if not isinstance(value, bytes):
        return str(value).encode()
    try:
        return zlib.decompress(value)
    except zlib.error:
        return value


@pytest.fixture
def talkative(account, runner, tmp_path):
    """Runs a program over the data folder with every logger at its lowest level; returns exit code and all output."""

    def run(*arguments, program=WME, **more):
        environ = bare() | account.environ(tmp_path / "data") | more
        process = runner.program(program, *arguments, environ=environ)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
        return process.returncode, out + err

    return run


def _trouble(account, hours):
    """One of everything, on paths of their own; what the service echoes is what it was sent."""
    add = account.sandbox.faults.add
    first, second, third = (f"/v2/batches/{hour:%Y-%m-%d}/{hour:%H}" for hour in hours)
    add(path=first, kind="html")
    add(path=second, kind="status", status=500)
    add(path=f"{first}/enwiki_namespace_0/download", kind="expired")
    add(path=f"{first}/frwiki_namespace_0/download", kind="cut")
    add(path=f"{second}/enwiki_namespace_0/download", kind="flip", count=None)
    add(path=f"{second}/frwiki_namespace_0/download", kind="cut", after=10)
    add(path=f"{third}/enwiki_namespace_0/download", kind="expired", count=None)
    add(path=f"{third}/frwiki_namespace_0/download", kind="status", status=503, where="objects")
    add(path=f"{third}/frwiki_namespace_0/download", kind="status", status=429, retry_after=0)
    add(path="/v1/login", kind="status", status=401, message=f"The password {account.password} is wrong.")


def test_no_secret_is_ever_shown_or_stored(account, secrets, talkative, hours, tmp_path):
    data, span = lay(tmp_path / "data"), between(hours[0], hours[-1])
    _trouble(account, hours)

    outputs = {"refused login": talkative("run", *span)}
    assert sum(seen.path == "/v1/login" for seen in account.sandbox.requests) == 1, "a refused password was tried again"
    secrets.learn("Wr0ng-password-of-nobody")
    outputs["wrong password"] = talkative("auth", "login", WME_PASSWORD="Wr0ng-password-of-nobody")
    outputs["troubled run"] = talkative("run", *span)
    account.sandbox.accounts.revoke_access(account.username)
    account.sandbox.faults.clear()
    token = (data / "state" / "tokens.json").read_text()
    echoed = re.findall(r"eyJ[\w.-]+", token)[0]
    assert secrets.found_in(token.encode())  # as it would be found elsewhere
    message = f"Token {echoed} may not; see {account.sandbox.url}/?k={echoed}"
    account.sandbox.faults.add(path="/v2/codes", kind="status", status=403, message=message)
    # Dagster's own command: its loggers, its processes, its capture of what steps print
    words = ("asset", "materialize", "--select", "archive/reference", "-m", "pipelines.definitions")
    program = TALKATIVE + "from dagster._cli import main; sys.argv[0] = 'dagster'; main()"
    outputs["asset of Dagster"] = talkative(*words, program=program, DAGSTER_HOME=str(data / "dagster"))
    outputs["healed run"] = talkative("run", *span)
    outputs["revoke"] = talkative("auth", "revoke")

    assert [code for code, _ in outputs.values()] == [1, 1, 1, 1, 0, 0], outputs.keys()
    # the loggers were talkative indeed, and the troubles were met
    troubled = outputs["troubled run"][1]
    assert "DEBUG" in troubled
    assert "connectionpool" in troubled
    for sentence in ("The last of two downloads of", "rejected two new signed URLs", "was interrupted at byte"):
        assert sentence in troubled
    assert "have no access" in outputs["asset of Dagster"][1]
    assert len(secrets) > 10

    shown = {name: secrets.found_in(output.encode()) for name, (_, output) in outputs.items()}
    assert {name: leaks for name, leaks in shown.items() if leaks} == {}
    left = list(left_in(data))
    assert list(dict.fromkeys(place for place, content in left if secrets.found_in(content))) == []
    # compressed columns are looked through as well
    assert any(place.endswith("runs.db, table snapshots") and b'"reference"' in content for place, content in left)


def test_no_password_code_or_session_is_shown_or_stored(account, secrets, talkative, tmp_path):
    """Every flow of passwords, refused and done, with variables as their source, which the service repeats."""
    accounts, add = account.sandbox.accounts, account.sandbox.faults.add
    weak, first, second = "Weak-but-secret", "N3w-password-one!", "N3w-password-two!"
    wrong, temporary = "Wr0ng-password-of-nobody", "Temp0rary-Password!"
    secrets.learn(weak, first, second, wrong, temporary, "987654321")
    outputs = {"login": talkative("auth", "login")}
    outputs["ask for a code"] = talkative("auth", "forgot-password")
    code = "Code-" + os.urandom(6).hex()  # six digits may stand anywhere by chance
    accounts._database.change("UPDATE codes SET code = ? WHERE username = ?", code, account.username)
    secrets.learn(code)
    for given, new in (("987654321", first), (code, weak), (code, first)):
        add(path="/v1/forgot-password-confirm", kind="status", status=401, message=f"{given} and {new}?")
        for answered in ("echoed", "refused"):
            told = talkative("auth", "confirm-password", WME_CODE=given, WME_NEW_PASSWORD=new)
            outputs[f"{answered} {given}, {new}"] = told
    for previous, new in ((wrong, second), (first, weak), (first, second)):
        told = talkative("auth", "change-password", WME_PASSWORD=previous, WME_NEW_PASSWORD=new)
        outputs[f"change {previous}, {new}"] = told
    accounts.set_password(account.username, temporary, temporary=True)
    outputs["challenge"] = talkative("auth", "login", WME_PASSWORD=temporary)
    assert json.loads((tmp_path / "data" / "state" / "tokens.json").read_bytes())["challenge"].encode() in secrets
    outputs["weak answer"] = talkative("auth", "new-password", WME_PASSWORD="", WME_NEW_PASSWORD=weak)
    outputs["status"] = talkative("auth", "status", "--json", WME_PASSWORD="")
    outputs["answer"] = talkative("auth", "new-password", WME_PASSWORD="", WME_NEW_PASSWORD=first)

    assert [code for code, _ in outputs.values()] == [0, 0, 1, 1, 1, 1, 1, 0, 1, 1, 0, 1, 1, 0, 0]
    assert "DEBUG" in outputs["answer"][1]
    shown = {name: secrets.found_in(output.encode()) for name, (_, output) in outputs.items()}
    assert {name: leaks for name, leaks in shown.items() if leaks} == {}
    assert [place for place, content in left_in(tmp_path / "data") if secrets.found_in(content)] == []
