"""The controls under `/sandbox/`, options of accounts that do the same, the log of requests, and the rate limit."""

import asyncio
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace

import pytest

from resources.sandbox import server
from resources.sandbox.__main__ import provide
from resources.sandbox.accounts import database
from resources.sandbox.accounts.database import RateLimit
from resources.sandbox.accounts.users import AccountError, RefreshTokenSpentError
from resources.sandbox.api.middleware import Journal, Seen
from resources.sandbox.clock import Clock
from resources.sandbox.options import parse
from tests.unit.sandbox.conftest import Client, refused, small_sandbox


def set_clock(client, **how):
    return client.call("/sandbox/clock", "POST", json=how).json()


def test_identity(client):
    assert client.call("/sandbox/identity").json() == {
        "identity": client.sandbox.settings.identity, "pid": os.getpid(), "url": client.sandbox.url,
        "object_url": client.sandbox.object_url, "realtime_url": client.sandbox.realtime_url,
        "now": "2025-03-09T07:30:00+00:00",
    }  # fmt: skip


def test_the_two_hours_that_are_told_are_listed_and_those_beside_them_are_not(client):
    for moment in ("2025-03-09T07:30:00Z", "2025-03-09T07:04:00Z", "2025-03-09T07:00:00Z", "2025-03-09T00:01:00Z"):
        set_clock(client, set=moment)
        client.login()
        told = client.call("/sandbox/hours").json()
        for end, step in (("oldest", -1), ("newest", 1)):
            hour = datetime.strptime(told[end], "%Y-%m-%d/%H").replace(tzinfo=UTC)
            beside = hour + timedelta(hours=step)
            assert client.call(f"/v2/batches/{told[end]}").status_code == 200
            assert client.call(f"/v2/batches/{beside:%Y-%m-%d/%H}").status_code == 404


def test_the_clock_and_the_date_of_answers(client):
    assert client.call("/sandbox/clock").json() == {"now": "2025-03-09T07:30:00+00:00", "frozen": True}
    assert set_clock(client, advance_seconds=90)["now"] == "2025-03-09T07:31:30+00:00"
    moved = set_clock(client, set="2025-04-01T11:59:00+02:00", advance_seconds=60, release=False)
    assert moved["now"] == client.sandbox.clock.now().isoformat() == "2025-04-01T10:00:00+00:00"
    answers = [client.call("/v2/codes"), client.call("/v2/nothing")]
    assert {answer.headers["date"] for answer in answers} == {"Tue, 01 Apr 2025 10:00:00 GMT"}
    assert set_clock(client, release=True)["frozen"] is False
    clock = client.sandbox.clock
    for _ in range(3):
        set_clock(client, advance_seconds=86_400)
    assert timedelta(days=2) < clock.now() - datetime.now(UTC) < timedelta(days=4)
    set_clock(client, release=True)
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(minutes=5)
    with pytest.raises(ValueError, match="timezone-aware"):
        clock.set(datetime(2025, 3, 9))  # noqa: DTZ001
    clock.set(datetime(2025, 4, 1, 12, tzinfo=timezone(timedelta(hours=2))))
    assert client.call("/v2/codes").headers["date"] == "Tue, 01 Apr 2025 10:00:00 GMT"


def test_limits(client):
    assert client.call("/sandbox/limits", "POST", json={"per_second": 0.0001, "burst": 2}).status_code == 204
    answers = [client.call("/v2/articles/Nobody") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [404, 404, 429, 429]
    assert client.sandbox.accounts.quotas.of(client.sandbox.accounts.user("sandbox"), "ondemand").used == 2
    assert answers[-1].text == '{"status":429,"message":"Too Many Requests"}\n'
    assert "Retry-After" not in answers[-1].headers
    assert client.call("/sandbox/limits", "POST", json={"per_second": 0.0001}).status_code == 204
    make(client, "other", password="Other-1234", groups="group_1")
    other = Client(client.sandbox, client.session)
    other.login("other", "Other-1234")
    assert other.call(client.HOUR).status_code == 403  # which costs nothing
    assert [one.call("/v2/codes").status_code for one in (client, client, other)] == [200, 429, 200]
    assert client.call("/sandbox/limits", "POST", json={"per_second": None}).status_code == 204
    assert client.call("/v2/codes").status_code == 200


def test_so_many_are_admitted_at_once_and_then_each_second_and_what_was_refused_costs_nothing(monkeypatch):
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(database, "time", clock)
    rate = RateLimit()
    rate.set(2, burst=3)
    assert [rate.admit("ada") for _ in range(5)] == [True, True, True, False, False]
    for clock.now in (0.1, 0.2, 0.3, 0.4, 0.49):
        assert not rate.admit("ada")
    clock.now = 0.5
    assert [rate.admit("ada") for _ in range(2)] == [True, False]
    clock.now = 1000
    assert [rate.admit("ada") for _ in range(5)] == [True, True, True, False, False]
    # users do not share their rate, and a new limit begins anew
    rate.set(1)
    assert [rate.admit(name) for name in ("ada", "bob", "ada", "bob")] == [True, True, False, False]
    rate.set(1)
    assert rate.admit("ada")
    rate.set(None)
    assert all(rate.admit("ada") for _ in range(9))


def make(client, username, **content):
    answer = client.call("/sandbox/accounts", "POST", json={"username": username, **content})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_free_account_meets_a_403_and_an_exhausted_quota_is_a_429(client):
    made = make(client, "free")
    assert (made["groups"], made["quotas"]["snapshot"]) == (["group_1"], {"used": 0, "limit": 30})
    listed = client.call("/sandbox/accounts")
    assert [account["username"] for account in listed.json()] == ["free", "sandbox"]
    assert made["password"] not in listed.text
    assert client.sandbox.password not in listed.text
    client.login("free", made["password"])
    answer = client.call(client.HOUR)
    assert (answer.status_code, answer.text) == (403, '{"status":403,"message":"Forbidden"}\n')
    assert [client.call(path).status_code for path in ("/v2/codes", "/v2/projects")] == [200, 200]
    again = make(client, "free", groups=["group_2"], quotas={"batch": 1, "snapshot": {"limit": 0, "used": 4}})
    assert "password" not in again
    many = {"used": 0, "limit": 10_000_000}
    limits = {"ondemand": many, "snapshot": {"used": 4, "limit": 0}, "chunk": many, "batch": {"used": 0, "limit": 1}}
    assert again["quotas"] == limits
    client.login("free", made["password"])
    methods = ("HEAD", "GET", "GET", "HEAD")
    assert [client.call(client.DOWNLOAD, method).status_code for method in methods] == [200, 307, 429, 200]
    assert make(client, "free", quotas={"batch": {"limit": None}})["quotas"]["batch"] == {"used": 0, "limit": None}
    assert client.call(client.DOWNLOAD).status_code == 307
    assert make(client, "free", password=None, groups=[])["password"] != made["password"]
    assert client.sandbox.accounts.user("free").groups == ()


def test_the_address_of_an_account_is_its_name_or_can_be_changed(client):
    make(client, "ops@example.org")
    assert client.sandbox.accounts.user("ops@example.org").email == "ops@example.org"
    for email in ("first@example.org", "second@example.org"):
        make(client, "someone", email=email)
        assert client.sandbox.accounts.user("someone").email == email


def test_tokens_end_before_their_time(client):
    def end(**how):
        return client.call("/sandbox/tokens", "POST", json={"username": "sandbox"} | how).json()

    make(client, "other", password="Other-1234")
    client.sandbox.accounts.login("other", "Other-1234")
    tokens = client.login()
    assert [end(revoke="access") for _ in range(2)] == [{"access_tokens": 2}, {"access_tokens": 0}]
    assert client.call("/v2/codes").status_code == 401
    refresh = {"username": "sandbox", "refresh_token": tokens["refresh_token"]}
    assert client.auth("token-refresh", refresh).status_code == 200
    assert end(exhaust=True) == {"refresh_tokens": 2}
    assert client.auth("token-refresh", refresh).status_code == 429
    refresh["refresh_token"] = client.login()["refresh_token"]
    assert [end(revoke="all") for _ in range(2)] == [{"refresh_tokens": 3}, {"refresh_tokens": 0}]
    assert client.auth("token-refresh", refresh).status_code == client.call("/v2/codes").status_code == 401
    assert client.auth("token-refresh", refresh | {"refresh_token": tokens["refresh_token"]}).status_code == 429


def test_addresses_are_admitted(client):
    client.token = ""
    admitted = {"network": "127.0.0.0/8", "groups": ["group_1"]}
    assert client.call("/sandbox/admissions", "POST", json=admitted).json() == [admitted]
    assert (client.call("/v2/codes").status_code, client.call(client.HOUR).status_code) == (200, 403)
    anyone = {"network": "127.0.0.0/8"}
    assert client.call("/sandbox/admissions", "POST", json=anyone).json() == [anyone | {"groups": ["group_3"]}]
    client.call("/sandbox/admissions", "POST", json={"network": "::1", "groups": ["group_2"]})
    users = map(client.sandbox.accounts.admissions.user, ("::1", "127.9.9.9", "10.0.0.1"))
    known = [user and (user.username, user.group) for user in users]
    assert known == [("anonymous-::1/128", "group_2"), ("anonymous-127.0.0.0/8", "group_3"), None]
    assert client.call("/sandbox/admissions", "DELETE").json() == client.call("/sandbox/admissions").json() == []
    assert client.call("/v2/codes").status_code == 401


LONG = ["accounts " + "[" * 100_000, "faults " + '{"a":' * 100_000, "faults " + "9" * 5_000, "tokens \xff"]


@pytest.mark.parametrize(
    ("asked", "message"), [*refused("control requests"), *((one, "") for one in LONG)], ids=lambda value: value[:60]
)
def test_what_cannot_be_read_is_a_422_and_changes_nothing(client, asked, message):
    path, text = asked.split(" ", 1)
    answer = client.call(f"/sandbox/{path}", "POST", data=text.encode("latin-1"))
    assert answer.status_code == 422, answer.text
    assert answer.json()["message"].startswith(message)
    assert client.call("/sandbox/clock").json()["now"] == "2025-03-09T07:30:00+00:00"
    assert client.call("/sandbox/faults").json() == client.call("/sandbox/admissions").json() == []
    assert [account["username"] for account in client.call("/sandbox/accounts").json()] == ["sandbox"]
    assert [client.call("/v2/codes").status_code for _ in range(3)] == [200] * 3


def test_a_body_that_is_nested_without_end_is_a_422_and_an_unknown_control_a_404(client):
    for path in ("/v2/projects", "/v1/login", "/v1/change-password"):
        answer = client.call(path, "POST", data="[" * 100_000, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422
    for method, path in (("GET", "nothing"), ("PUT", "clock"), ("POST", "identity")):
        assert client.call(f"/sandbox/{path}", method).status_code == 404


def test_stop_is_asked_for_and_nobody_joins_any_more(tmp_path, signing_key):
    with small_sandbox(tmp_path, signing_key) as client:
        assert not client.sandbox.stopped.is_set()
        assert client.call("/sandbox/stop", "POST").status_code == 204
        assert client.sandbox.stopped.is_set()
        assert client.call("/sandbox/identity").status_code == 503


def test_a_start_whose_thread_fails_is_refused_at_once(tmp_path, signing_key, monkeypatch):
    polls = iter(range(5_000))
    clock = SimpleNamespace(monotonic=lambda: 0, sleep=lambda seconds: (next(polls), time.sleep(seconds)))
    monkeypatch.setattr(server, "time", clock)
    monkeypatch.setattr(server.Sandbox, "_serve", lambda _: asyncio.sleep(0))
    with pytest.raises(RuntimeError, match="did not start"), small_sandbox(tmp_path, signing_key):
        pass


def test_the_log_has_a_bound_and_no_query(client, monkeypatch):
    client.call("/v2/codes")
    client.call("/v2/projects?fields=name", "POST")
    assert client.call("/sandbox/requests").json() == [["GET", "/v2/codes", 200], ["POST", "/v2/projects", 200]]
    assert client.call("/sandbox/requests", "DELETE").status_code == 204
    assert list(client.sandbox.requests) == []
    client.fetch(client.signed(client.DOWNLOAD))
    assert not any("?" in seen.path or "Signature" in seen.path for seen in client.sandbox.requests)
    monkeypatch.setattr("resources.sandbox.api.middleware._LONGEST", 10)
    log = Journal(Clock()).requests
    log.extend(Seen("GET", f"/{number}", 200) for number in range(14))
    assert [seen.path for seen in log] == [f"/{number}" for number in range(4, 14)]


def test_idleness(client):
    journal = Journal(Clock())
    assert journal.idle_seconds() < 5
    journal._last -= 100
    assert journal.idle_seconds() >= 100

    async def failing(*_):
        journal._last -= 100
        assert journal.idle_seconds() == 0
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        asyncio.run(journal.watch(failing)({}, None, None))
    assert 0 < journal.idle_seconds() < 50  # from its end
    client.sandbox.journal._last -= 100
    client.call("/sandbox/identity")
    assert client.sandbox.journal.idle_seconds() < 50


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://example.org"}, {"Host": "example.org"}, {"Host": "127.0.0.1.example.org:80"}]
)
@pytest.mark.parametrize(("method", "path"), [("GET", "outbox"), ("POST", "accounts"), ("POST", "stop")])
def test_a_page_in_a_browser_controls_nothing(client, method, path, headers):
    answer = client.call(f"/sandbox/{path}", method, headers=headers)
    assert answer.status_code == 403
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert not client.sandbox.stopped.is_set()
    assert "Access-Control-Allow-Origin" not in client.call("/sandbox/identity").headers


class TestOptions:
    @staticmethod
    def provide(client, *words, **environ):
        options = parse(["--state", str(client.sandbox.settings.state), *words], called="")
        return provide(client.sandbox.accounts, options, environ)

    @staticmethod
    def credentials(client, name):
        path = client.sandbox.settings.state / "accounts" / f"{name}.json"
        assert (path.stat().st_mode | path.parent.stat().st_mode) & 0o077 == 0
        return json.loads(path.read_bytes())

    def test_make_accounts_once_and_say_where_their_passwords_are(self, client):
        words = ["--account", "free", "--account", "paid:group_2", "--temporary", "new", "--quota", "paid:batch=1"]
        words += ["--quota", "free:chunk=5"]
        told = self.provide(client, *words, "--admit", "10.0.0.0/8:group_1")
        place = client.sandbox.settings.state / "accounts"
        assert told == [
            f"The password of the account free (group_1) is in {place}/free.json.",
            f"The password of the account paid (group_2) is in {place}/paid.json.",
            f"The temporary password of the account new (group_1) is in {place}/new.json.",
            "Requests from 10.0.0.0/8 need no token (group_1).",
        ]
        for name in ("free", "paid", "new"):
            assert not any(self.credentials(client, name)["password"] in line for line in told)
        assert client.auth("login", self.credentials(client, "new")).json()["challenge_name"] == "NEW_PASSWORD_REQUIRED"
        before = self.credentials(client, "paid")
        client.login(**before)
        assert [client.call(client.DOWNLOAD).status_code for _ in range(2)] == [307, 429]
        self.provide(client, "--account", "paid:group_1")
        assert self.credentials(client, "paid") == before
        client.login(**before)
        assert client.call(client.HOUR).status_code == 403
        assert client.sandbox.accounts.admissions.all() == {"10.0.0.0/8": ["group_1"]}

    def test_the_environment_names_an_account_whose_password_is_shown_nowhere(self, client):
        for environ in ({"WME_USERNAME": "ada"}, {"WME_PASSWORD": "Secret-Word-1"}, {"WME_USERNAME": " "}):
            assert self.provide(client, **environ) == []
        assert client.sandbox.accounts.usernames() == ["sandbox"]
        told = self.provide(client, WME_USERNAME=" Ada ", WME_PASSWORD="Secret-Word-1")
        assert told == ["The account Ada has the password from WME_PASSWORD."]
        for name in ("Ada", "ada"):
            client.login(name, "Secret-Word-1")
            assert client.call(client.HOUR).status_code == 200
        state = client.sandbox.settings.state
        assert not any(b"Secret-Word-1" in path.read_bytes() for path in state.rglob("*") if path.is_file())
        self.provide(client, WME_USERNAME="Ada", WME_PASSWORD="Other-Word-2")
        client.login("ada", "Other-Word-2")


def test_counters_are_exact_under_threads_and_names_are_of_one_account_that_is_there(client):
    accounts = client.sandbox.accounts
    user = accounts.identify(client.token)
    for change in (accounts.set_groups, accounts.set_quota):
        with pytest.raises(AccountError):
            change("nobody", "chunk")
    with pytest.raises(ValueError, match="already has an account sandbox"):
        accounts.create("sandbox", "Other-1234")
    accounts.set_quota("sandbox", "ondemand", limit=50)
    refresh_token = client.login()["refresh_token"]

    def refresh():
        try:
            return bool(accounts.refresh("sandbox", refresh_token))
        except RefreshTokenSpentError:
            return False

    with ThreadPoolExecutor(8) as pool:
        spent = [pool.submit(accounts.quotas.spend, user, "ondemand") for _ in range(80)]
        refreshed = [pool.submit(refresh) for _ in range(120)]
    assert sum(future.result() for future in spent) == 50
    assert accounts.quotas.of(user, "ondemand").used == 50
    assert sum(future.result() for future in refreshed) == 90
    accounts._database.change("DELETE FROM users WHERE username = 'sandbox'")
    assert client.call("/v2/codes").json()["message"].startswith("UserNotFoundException")
