"""Accounts, quotas, tokens and admissions as a client in any language sets them: by option and by control request."""

import json

import pytest

from resources.sandbox.__main__ import provide
from resources.sandbox.options import parse


def make(client, username, **content):
    answer = client.call("/sandbox/accounts", "POST", json={"username": username, **content})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_free_account_meets_a_403_and_an_exhausted_quota_is_a_429(client):
    made = make(client, "free")
    assert made["groups"] == ["group_1"]
    assert made["quotas"]["snapshot"] == {"used": 0, "limit": 30}
    listed = client.call("/sandbox/accounts")
    assert [account["username"] for account in listed.json()] == ["free", "sandbox"]
    assert made["password"] not in listed.text
    assert client.sandbox.password not in listed.text
    client.login("free", made["password"])
    answer = client.call(client.HOUR)
    assert (answer.status_code, answer.text) == (403, '{"status":403,"message":"Forbidden"}\n')
    assert [client.call(path).status_code for path in ("/v2/codes", "/v2/projects")] == [200, 200]
    again = make(client, "free", groups=["group_2"], quotas={"batch": 1, "snapshot": {"limit": 9, "used": 4}})
    assert "password" not in again
    assert again["quotas"]["snapshot"] == {"used": 4, "limit": 9}
    client.login("free", made["password"])
    assert [client.call(client.DOWNLOAD).status_code for _ in range(2)] == [307, 429]
    assert make(client, "free", quotas={"batch": {"limit": None}})["quotas"]["batch"] == {"used": 0, "limit": None}
    assert client.call(client.DOWNLOAD).status_code == 307


def test_the_address_of_an_account_is_its_name_or_can_be_changed(client):
    make(client, "ops@example.org")
    assert client.sandbox.accounts.user("ops@example.org").email == "ops@example.org"
    for email in ("first@example.org", "second@example.org"):
        make(client, "someone", email=email)
        assert client.sandbox.accounts.user("someone").email == email


def test_tokens_end_before_their_time(client):
    def end(**how):
        return client.call("/sandbox/tokens", "POST", json={"username": "sandbox"} | how).json()

    tokens = client.login()
    assert end(revoke="access") == {"access_tokens": 2}
    assert client.call("/v2/codes").status_code == 401
    refresh = {"username": "sandbox", "refresh_token": tokens["refresh_token"]}
    assert client.auth("token-refresh", refresh).status_code == 200
    assert end(exhaust=True) == {"refresh_tokens": 2}
    assert client.auth("token-refresh", refresh).status_code == 429
    refresh["refresh_token"] = client.login()["refresh_token"]
    assert end(revoke="all") == {"refresh_tokens": 3}
    assert client.auth("token-refresh", refresh).status_code == 401


def test_addresses_are_admitted(client):
    client.token = ""
    admitted = {"network": "127.0.0.0/8", "groups": ["group_1"]}
    assert client.call("/sandbox/admissions", "POST", json=admitted).json() == [admitted]
    assert client.call("/v2/codes").status_code == 200
    assert client.call(client.HOUR).status_code == 403
    assert client.call("/sandbox/admissions", "DELETE").json() == client.call("/sandbox/admissions").json() == []
    assert client.call("/v2/codes").status_code == 401


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        ("accounts", {}, "`username`: Field required"),
        ("accounts", {"username": "x", "group": "group_1"}, "`group`: Extra inputs are not permitted"),
        ("accounts", {"username": "x", "groups": ["group_4"]}, "Input should be 'group_1', 'group_2' or"),
        ("accounts", {"username": "x", "groups": 3}, "`groups`: Input should be a valid list"),
        ("accounts", {"username": "x", "password": 3}, "`password`: Input should be a valid string"),
        ("accounts", {"username": "x", "temporary": 1}, "`temporary`: Input should be a valid boolean"),
        ("accounts", {"username": "x", "quotas": [1]}, "`quotas`: Input should be a valid dictionary"),
        ("accounts", {"username": "x", "quotas": {"chunks": 1}}, "Input should be 'ondemand', 'snapshot', 'chunk'"),
        ("accounts", {"username": "x", "quotas": {"chunk": "1"}}, "Input should be a valid integer"),
        ("accounts", {"username": "x", "quotas": {"chunk": {"limit": -1}}}, "greater than or equal to 0"),
        ("accounts", {"username": "x", "quotas": {"chunk": True}}, "Input should be a valid integer"),
        ("accounts", [], "Input should be a valid dictionary"),
        ("tokens", {"username": "nobody", "revoke": "all"}, "there is no account 'nobody'; the accounts are sandbox."),
        ("tokens", {"username": "sandbox"}, 'send "revoke": "access"'),
        ("tokens", {"username": "sandbox", "revoke": "all", "exhaust": True}, 'send "revoke": "access"'),
        ("admissions", {"network": "everywhere"}, "`network`: value is not a valid IPv4 or IPv6 network"),
        ("admissions", {}, "`network`: Field required"),
    ],
    ids=str,
)
def test_what_cannot_be_read_changes_nothing(client, path, content, message):
    answer = client.call(f"/sandbox/{path}", "POST", json=content)
    assert answer.status_code == 422, answer.text
    assert message in answer.json()["message"]
    assert [account["username"] for account in client.call("/sandbox/accounts").json()] == ["sandbox"]
    assert client.call("/sandbox/admissions").json() == []


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
        assert path.stat().st_mode & 0o077 == 0
        return json.loads(path.read_bytes())

    def test_make_accounts_once_and_say_where_their_passwords_are(self, client):
        words = ["--account", "free", "--account", "paid:group_2", "--temporary", "new", "--quota", "paid:batch=1"]
        told = self.provide(client, *words, "--admit", "10.0.0.0/8:group_1")
        assert [line.split(" is in ")[0] for line in told] == [
            "The password of the account free (group_1)",
            "The password of the account paid (group_2)",
            "The temporary password of the account new (group_1)",
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
        told = self.provide(client, WME_USERNAME="Ada", WME_PASSWORD="Secret-Word-1")
        assert told == ["The account Ada has the password from WME_PASSWORD."]
        for name in ("Ada", "ada"):
            client.login(name, "Secret-Word-1")
            assert client.call(client.HOUR).status_code == 200
        state = client.sandbox.settings.state
        assert not any(b"Secret-Word-1" in path.read_bytes() for path in state.rglob("*") if path.is_file())
        self.provide(client, WME_USERNAME="Ada", WME_PASSWORD="Other-Word-2")
        client.login("ada", "Other-Word-2")

    @pytest.mark.parametrize(
        "environ", [{"WME_USERNAME": "ada"}, {"WME_PASSWORD": "Secret-Word-1"}, {"WME_USERNAME": " "}]
    )
    def test_half_an_account_is_none(self, client, environ):
        assert self.provide(client, **environ) == []
        assert client.sandbox.accounts.usernames() == ["sandbox"]
