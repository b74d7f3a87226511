"""Who logs in, who refreshes, and when: one login per refresh token, whoever asks."""

import datetime as dt
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from unittest.mock import Mock

import pytest
from filelock import FileLock

from resources.enterprise import Service, errors
from resources.enterprise.account import token_store
from resources.enterprise.account.operations import weakness
from resources.enterprise.endpoints import AUTH_URL, BASE_URL, REALTIME_URL
from tests.unit.enterprise.conftest import HOUR
from tests.unit.enterprise.fake_service import PASSWORD
from tests.unit.enterprise.loopback import Reply, error_reply, html_reply, json_reply


def logins(fake):
    return len(fake.api.seen("/v1/login"))


def refreshes(fake):
    return len(fake.api.seen("/v1/token-refresh"))


def test_nothing_is_sent_or_written_before_a_method_is_called_and_one_login_is_enough(make_client, fake, tmp_path):
    first, second = make_client(username="  MIRROR "), make_client()
    assert first.account.status().logged_in is False
    assert fake.api.requests == []
    assert not (tmp_path / "state").exists()
    for client in (first, second, first):
        assert client.lists.reference("codes").records[0].identifier == "wiki"
    assert (logins(fake), refreshes(fake)) == (1, 0)
    [request] = fake.api.seen("/v1/login")
    assert request.json == {"username": "mirror", "password": PASSWORD}
    assert request.headers["content-type"] == "application/json"


def test_the_store_is_readable_by_its_owner_only_holds_no_password_and_is_of_one_account(make_client, tmp_path):
    client = make_client()
    client.account.login()
    path = tmp_path / "state" / "tokens.json"
    assert sorted(p.name for p in path.parent.iterdir()) == ["tokens.json", "tokens.json.lock"]
    assert {stat.S_IMODE(p.stat().st_mode) for p in path.parent.iterdir()} == {0o600}
    assert PASSWORD not in path.read_text()
    assert "SECRET" not in repr(client.account._store.read())
    # a store that others could read is closed with the next write
    path.chmod(0o644)
    client.account.refresh()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not make_client(username="another", password="x-Password-9").account.status().logged_in
    assert not make_client(auth_url="http://127.0.0.1:9").account.status().logged_in
    assert client.account.status().logged_in


def test_the_token_is_refreshed_with_margin_and_not_before(make_client, client, fake, clock, caplog):
    caplog.set_level("INFO")
    client.lists.reference("codes")
    clock.advance(hours=23, minutes=49)
    client.lists.reference("codes")
    assert refreshes(fake) == 0
    clock.advance(minutes=2)
    client.lists.reference("codes")
    client.lists.reference("codes")
    assert (logins(fake), refreshes(fake)) == (1, 1)
    status = client.account.status()
    assert (status.refreshes_used, status.refreshes_left) == (1, 89)
    assert caplog.messages == ["Logged in as mirror.", "Refreshed the token of mirror (use 1 of 90)."]
    assert status.refresh_obtained_at == HOUR + dt.timedelta(hours=1, minutes=10)  # a refresh does not renew it
    assert status.sentence(clock.now) == (
        "Logged in as mirror. The access token lasts until 2026-11-03 06:01 UTC, the refresh token, 0 days old, until "
        "2027-01-30 06:10 UTC; 89 of its 90 uses are left."
    )
    # an answer without a life counts as a day
    fake.script("/v1/login", json_reply({"access_token": "abcdefgh", "refresh_token": "ijklmnop"}))
    assert client.account.login().access_expires_at == clock.now + dt.timedelta(days=1)
    reader = make_client()
    assert reader.account.status().logged_in
    assert [one.redactor.clean("abcdefgh or ijklmnop") for one in (client, reader)] == ["[hidden] or [hidden]"] * 2
    assert client.account.renew("another") == "abcdefgh"
    clock.advance(days=1)
    assert client.account.renew("another").startswith("eyJACCESS")  # the one that is stored has expired
    # tokens of a short life have a short margin
    fake.expires_in = 60
    client.account.login()
    for seconds, count in ((0, 2), (50, 2), (5, 3)):
        clock.advance(seconds=seconds)
        client.lists.reference("codes")
        assert refreshes(fake) == count
    fake.script("/v1/token-refresh", json_reply({"access_token": None}))
    with pytest.raises(errors.UnexpectedAnswer, match="access_token: Input should"):
        client.account.refresh()


@pytest.mark.parametrize(
    ("end", "asked"), [("used up by others", 1), ("expired", 0), ("revoked", 1), ("used up", 1), ("forbidden", 1)]
)
def test_a_refresh_token_that_ended_leads_to_a_login_at_once(client, fake, clock, tmp_path, caplog, end, asked):
    caplog.set_level("INFO")
    fake.uses_allowed = 0 if end == "used up by others" else 90
    client.account.login()
    if end == "used up":  # the ninety-first refresh is a login without asking
        path = tmp_path / "state" / "tokens.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"refresh_count": 89}))
        client.account.refresh()
        assert client.account.status().refreshes_left == 0
    clock.advance(days=90 if end == "expired" else 1)
    if end == "revoked":
        fake.revoke()
    fake.script("/v1/token-refresh", *[error_reply(403, "Forbidden")] * (end == "forbidden"))
    client.lists.reference("codes")
    assert (logins(fake), refreshes(fake)) == (2, asked)
    for why, ends in (
        ("was used 90 times", "used up by others"),
        ("has expired or was revoked", "revoked or forbidden"),
    ):
        told = f"Logging in again: Could not refresh the token of mirror: the refresh token {why}. "
        assert (told in caplog.text) is (end in ends.split(" or "))
    assert (client.account.status().refreshes_used, client.account.status().refreshes_left) == (0, 90)


def test_while_the_old_token_is_valid_a_refresh_that_fails_harms_nobody(client, fake, clock, caplog):
    client.lists.reference("codes")
    clock.advance(hours=23, minutes=55)
    fake.script("/v1/token-refresh", *[html_reply(503)] * 4, error_reply(401, "Unauthorized."))
    fake.script("/v1/login", *[error_reply(429, "Too Many Requests")] * 4)
    asked = 0
    for _ in range(2):
        client.lists.reference("codes")
        assert refreshes(fake) > asked
        asked = refreshes(fake)
        client.lists.reference("codes")
        assert refreshes(fake) == asked  # not again within a minute
        clock.advance(minutes=2)
    told = "The token could not be refreshed. The old token is still valid and remains in use: Could not"
    for message, doing in zip(caplog.messages, ("refresh the token of", "log in as"), strict=True):
        assert message.startswith(f"{told} {doing} mirror: the ")
    clock.advance(minutes=8)
    fake.script("/v1/token-refresh", *[html_reply(503)] * 4)
    with pytest.raises(errors.ServiceUnavailable):
        client.lists.reference("codes")


def test_clients_that_share_a_store_log_in_once_and_answer_one_revocation_once(make_client, fake):
    """As processes do: each client has a lock of its own, and that of the store is another file descriptor."""
    clients = [make_client() for _ in range(5)] * 4
    for revoke, counts in ((lambda: None, (1, 0)), (fake._access.clear, (1, 1)), (fake.revoke, (2, 2))):
        revoke()
        with ThreadPoolExecutor(len(clients)) as pool:
            assert [*pool.map(lambda one: len(one.lists.reference("codes")), clients)] == [1] * len(clients)
        assert (logins(fake), refreshes(fake)) == counts


def test_what_is_missing_or_wrong_is_named_with_the_command_or_the_setting(make_client, fake, clock):
    with pytest.raises(errors.TokenSpent, match=r"No token is stored.*wme auth login"):
        make_client(password=None).lists.reference("codes")
    with pytest.raises(errors.AuthenticationError, match=r"configured for mirror\. Nothing was sent\. Set WME_P"):
        make_client(password=None).account.login()
    with pytest.raises(errors.AuthenticationError, match=r"WME_USERNAME.*WME_ANONYMOUS"):
        make_client(username=None, password=None).lists.reference("codes")
    assert fake.api.requests == []
    for client in (make_client(password="another"), make_client(password=None)):
        assert client.account.login(PASSWORD).logged_in
    assert len(client.lists.reference("codes")) == 1
    fake.revoke()
    with pytest.raises(errors.TokenSpent, match=r"revoked.* no password .*wme auth login"):
        client.lists.reference("codes")
    clock.advance(days=91)
    with pytest.raises(errors.TokenSpent, match=r"used up or expired.* no password .*wme auth login"):
        client.lists.reference("codes")
    # a wrong password is permanent, and no unknown quota
    with pytest.raises(errors.AuthenticationError, match="log in as"):
        make_client(password="another").account.quotas()
    client, before = make_client(password="Wrong-Password-7"), logins(fake)
    with pytest.raises(errors.AuthenticationError, match=r"Incorrect username or password.*WME_PASSWORD"):
        client.lists.reference("codes")
    assert logins(fake) == before + 1
    with pytest.raises(errors.AuthenticationError, match=r"for nobody.*User not found\).* Check the spelling"):
        make_client(username="nobody").account.forgot_password()


def test_an_anonymous_client_sends_no_token_and_says_so_when_refused(make_client, fake):
    client = make_client(anonymous=True, username=None, password=None)
    fake.script("/v2/codes", json_reply([{"identifier": "wiki"}]))
    assert len(client.lists.reference("codes")) == 1
    assert "authorization" not in fake.api.requests[0].headers
    for reply in (None, error_reply(403, "Forbidden")):
        fake.script("/v2/codes", reply)
        with pytest.raises(errors.AuthenticationError, match="WME_ANONYMOUS"):
            client.lists.reference("codes")
    assert client.account.quotas() == {}
    fake.script("/v2/codes", *[error_reply(429, "Too Many Requests")] * 9)
    with pytest.raises(errors.RateLimited):
        client.lists.reference("codes")
    assert fake.api.seen("/v1/*") == []


def test_a_new_password_is_set_where_a_login_asks_for_one(client, make_client, fake, clock):
    with pytest.raises(errors.InvalidRequest, match="change-password"):
        make_client(password=None).account.new_password("Another-Pass-2!", PASSWORD)
    assert fake.password == PASSWORD
    assert client.account.status().logged_in
    fake.revoke()
    fake.challenge = "NEW_PASSWORD_REQUIRED"
    fake.script("/v1/new-password-required", error_reply(401, "Unauthorized."))
    with pytest.raises(errors.AuthenticationError, match=r"8 characters.*\. Run `wme auth new-password` again\.$"):
        client.account.new_password("short")
    told = "; 90 of its 90 uses are left. The service requires a new password: run `wme auth new-password`."
    assert client.account.status().sentence(clock.now).endswith(told)
    client.account._store.clear()
    with pytest.raises(errors.NewPasswordRequired, match="wme auth new-password"):
        client.lists.reference("codes")
    assert client.account.status().new_password_required
    assert client.redactor.clean("SESSIONSECRET-0001") == "[hidden]"
    assert [weakness(password) for password in ("Short-7", "Enough-8")] == ["8 characters", None]
    assert weakness("") == "8 characters, an uppercase letter, a lowercase letter, a digit, a symbol"
    assert weakness("aaaa----") == "an uppercase letter, a digit"
    assert weakness("AAAA9999") == "a lowercase letter, a symbol"
    fake.script("/v1/new-password-required", json_reply({"access_token": "a", "expires_in": 5}))
    with pytest.raises(errors.UnexpectedAnswer, match="no refresh token"):
        client.account.new_password("Another-Pass-2!")
    client = make_client(password=None)
    fake.script("/v1/new-password-required", error_reply(401, "Unauthorized."))  # the session has ended
    assert client.account.new_password("Another-Pass-2!", PASSWORD).logged_in
    fake.revoke()
    assert len(client.lists.reference("codes")) == 1
    assert fake.password == "Another-Pass-2!"
    client.account.confirm_password("424242", "Third-Pass-3!")
    fake.revoke()
    assert len(client.lists.reference("codes")) == 1


def test_a_password_is_changed_with_token_in_body_and_header(make_client, fake, tmp_path):
    with pytest.raises(errors.AuthenticationError, match="change the password"):  # the one for the login is known
        make_client(state=tmp_path).account.change_password("Wrong-Password-7", "Another-Pass-2!")
    client = make_client(password=None)
    with pytest.raises(errors.AuthenticationError, match="log in as mirror"):
        client.account.change_password("Wrong-Password-7", "Another-Pass-2!")
    with pytest.raises(errors.AuthenticationError, match="No password is configured"):  # not even the wrong one
        client.account.login()
    client.account.change_password(PASSWORD, "Another-Pass-2!")
    request = fake.api.seen("/v1/change-password")[-1]
    assert request.headers["authorization"] == f"Bearer {request.json['access_token']}"
    assert fake.password == "Another-Pass-2!"
    for proposed, advice in (("Third-Pass-3!", "Check the previous"), ("weak", "The new password does not contain 8 ")):
        with pytest.raises(errors.AuthenticationError, match=rf"password\)\. Nothing was changed\. {advice}"):
            client.account.change_password(PASSWORD, proposed)
    fake.script("/v1/change-password", error_reply(422, "Weak"))
    with pytest.raises(errors.InvalidRequest, match=r"422 \(Weak\)\. Nothing was changed\. .*at least 8 characters"):
        client.account.change_password(PASSWORD, "Third-Pass-3!")
    fake.revoke()
    assert client.account.refresh().logged_in
    fake.password = "Another-Pass-2!"
    fake.script("/v1/change-password", Reply(drop=True), error_reply(401, "Incorrect username or password."))
    # the first answer was lost: the change may have been made
    with pytest.raises(errors.AuthenticationError, match="log in with the new password") as raised:
        client.account.change_password("Another-Pass-2!", "Third-Pass-3!")
    assert "Nothing was changed" not in str(raised.value)


def test_revoke_ends_the_token_at_the_service_and_here(client, fake, tmp_path):
    client.account.login()
    assert client.account.revoke().logged_in is False
    assert not (tmp_path / "state" / "tokens.json").exists()
    assert fake.api.seen("/v1/token-revoke")[0].json["refresh_token"].startswith("eyJREFRESH")
    client.account.revoke()  # nothing is stored, nothing is sent
    assert len(fake.api.seen("/v1/token-revoke")) == 1
    client.lists.reference("codes")
    [request] = fake.api.seen("/v2/codes")  # no second one, which would be an answer to a 401
    assert request.headers["authorization"] == f"Bearer {client.account.access_token()}"
    assert logins(fake) == 2
    # what had ended already is forgotten, and a revocation that does not arrive forgets nothing
    client.account.login()
    fake.revoke()
    assert client.account.revoke().logged_in is False
    client.account.login()
    fake.script("/v1/token-revoke", *[Reply(500)] * 9)
    with pytest.raises(errors.ServiceUnavailable):
        client.account.revoke()
    assert client.account.status().logged_in


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        *((json_reply(some), errors.UnexpectedAnswer, "neither tokens nor a") for some in ({}, {"access_token": "a"})),
        (json_reply({"access_token": 7, "refresh_token": "x"}), errors.UnexpectedAnswer, "access_token"),
        (error_reply(422, "Internal error, please try again later."), errors.InvalidRequest, "422 .*its arguments"),
        (Reply(301, b"", {"Location": "http://127.0.0.1:9/"}), errors.UnexpectedAnswer, "301"),
    ],
)
def test_odd_answers_to_a_login_are_sentences(client, fake, reply, kind, words, tmp_path):
    fake.script("/v1/login", *[reply] * 9)
    with pytest.raises(kind, match=words):
        client.account.login()
    assert not (tmp_path / "state" / "tokens.json").exists()


def test_a_store_that_cannot_be_used_or_is_locked_is_said_and_a_full_disk_keeps_the_tokens(
    make_client, client, monkeypatch, tmp_path
):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.StateError, match=r"(Not a directory).*Make the user who runs this command the owner"):
        make_client(state=tmp_path / "file" / "state").account.login()
    client.account.login()
    path = tmp_path / "state" / "tokens.json"
    before = path.read_bytes()
    land = partial(client.lists.land, client.lists.reference("codes"), tmp_path / "codes.json")
    for number, kind, words in (
        (28, errors.DiskFull, ("disk is full", "`land` could not .* Free up")),
        (30, errors.StateError, ("Mount the file system read-write, or", "`land` could not .* permissions")),
    ):
        for call, told in zip((client.account.refresh, land), words, strict=True):
            with monkeypatch.context() as patch:
                patch.setattr(os, "fsync", Mock(side_effect=OSError(number, "The reason")))
                with pytest.raises(kind, match=told):
                    call()
    assert path.read_bytes() == before
    assert sorted(p.name for p in path.parent.iterdir()) == ["tokens.json", "tokens.json.lock"]
    monkeypatch.setattr(token_store, "_LOCK_SECONDS", 0.05)
    with FileLock(f"{path}.lock"), pytest.raises(errors.StateBusy, match=rf"token file {path} for more than 0 s\."):
        client.account.login()
    assert client.account.login().logged_in
    path.unlink()
    path.mkdir()
    with pytest.raises(errors.StateError, match="cannot be read"):
        client.lists.reference("codes")


GET_USER = "/v1/get-user"


@pytest.mark.parametrize(
    "reply",
    [
        error_reply(400, "no"), error_reply(401, "Unauthorized"), error_reply(403, "Forbidden"),
        error_reply(404, "Not Found"), error_reply(422, "no"), error_reply(429, "Too Many Requests"),
        error_reply(500, "no"), html_reply(404), json_reply({"username": 10**30}), Reply(200, b"Jwt is expired"),
    ],
)  # fmt: skip
def test_a_snapshot_is_fetched_and_a_password_changed_by_an_unknown_account(client, fake, tmp_path, caplog, reply):
    fake.add_snapshot("frwiki_namespace_0", b"a" * 50, b"b" * 50)
    fake.script(GET_USER, *[reply] * 99)
    for _ in range(2):
        plan = client.snapshots.plan("frwiki_namespace_0", tmp_path / "snapshots")
        assert plan.units_left is None
        client.snapshots.download(plan)
    assert client.account.known_user() is None
    [told] = [one for one in caplog.messages if "groups and quotas are unknown" in one]
    assert "so no limit is assumed: Could not read the account's quotas: the " in told
    with pytest.raises(errors.EnterpriseError):
        client.account.user()
    client.account.change_password(PASSWORD, "AnotherPhrase-Kept-Secret-2!")
    assert fake.password == "AnotherPhrase-Kept-Secret-2!"


def test_the_token_is_in_the_header_and_in_the_body(client, fake):
    def by_body(request):
        known = request.json["access_token"] in fake._access
        return json_reply({"username": "by body"}) if known else error_reply(401, "Unauthorized")

    fake.script(GET_USER, by_body, by_body, by_body)
    assert client.account.user().username == "by body"
    fake._access.clear()
    assert client.account.user().username == "by body"  # with another token, in the body too
    for request in fake.api.seen(GET_USER):
        assert request.headers["authorization"] == f"Bearer {request.json['access_token']}"
    fake.api.close()
    client.close()
    with pytest.raises(errors.UnreachableError):  # which is no unknown limit
        client.account.quotas()


def test_the_real_hosts_are_the_default():
    service = Service()
    assert (service.auth_url, service.base_url, service.realtime_url) == (AUTH_URL, BASE_URL, REALTIME_URL)
    assert all(url.startswith("https://") for url in (AUTH_URL, BASE_URL, REALTIME_URL))
    assert Service(username="", password="", contact=" ") == Service()
    assert "Hidden-1!" not in repr(Service(username="A", password="Hidden-1!"))


@pytest.mark.parametrize(
    "url",
    ["", "x.org", "ftp://x", *(f"https://{rest}" for rest in ("", "x?a", "x#a", "u:secret@x", "x:x", "x:0", "[x"))],
)
def test_addresses_that_are_none_are_refused_without_repeating_them(url):
    with pytest.raises(errors.InvalidRequest, match="WME_BASE_URL") as caught:
        Service(base_url=url)
    assert "secret" not in str(caught.value)


def test_a_token_is_never_sent_to_a_host_that_is_not_the_services(client, fake):
    with pytest.raises(errors.InvalidRequest, match="does not belong to the service"):
        client.lists.records(fake.store.url.replace("http://", "@") + "/x")  # the base URL becomes a user name
    assert fake.store.requests == []
