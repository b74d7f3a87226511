"""The eight operations of `/v1` over HTTP: status codes, bodies, and the states they move an account through."""

import hashlib
import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import ANY, Mock

import jwt
import pytest
import requests

from resources.sandbox.accounts.accounts import Accounts
from resources.sandbox.accounts.tokens import TokenMint
from resources.sandbox.accounts.users import RefreshTokenSpentError
from resources.sandbox.api import app, streams
from tests.unit.sandbox.conftest import Client, small_sandbox

NEW = "Another-5678"
OPEN = {"verify_signature": False}
NOT_SAID = {"status": 422, "message": "Internal error, please try again later."}


def refusal(answer):
    return answer.status_code, answer.json()["message"]


def test_login_hands_out_tokens_that_open_data(client):
    client.sandbox.accounts.set_groups("sandbox", ["group_1", "group_3"])
    before, tokens = client.login(), client.login()
    assert list(tokens) == ["id_token", "access_token", "refresh_token", "expires_in"]
    assert tokens["expires_in"] == 86_400
    assert client.call("/v2/codes").status_code == 200
    header = jwt.get_unverified_header(client.token)
    claims, identity = (jwt.decode(tokens[f"{kind}_token"], options=OPEN) for kind in ("access", "id"))
    assert header["alg"] == "RS256"
    now, user = int(client.NOW.timestamp()), client.sandbox.accounts.user("sandbox")
    common = {
        "sub": user.subject, "cognito:groups": ["group_1", "group_3"], "iss": f"{client.sandbox.url}/pool",
        "origin_jti": hashlib.sha256(tokens["refresh_token"].encode()).hexdigest()[:32], "event_id": ANY,
        "scope": "aws.cognito.signin.user.admin", "auth_time": now, "iat": now, "exp": now + 86_400, "jti": ANY,
    }  # fmt: skip
    assert claims == common | {"token_use": "access", "client_id": identity["aud"], "username": "sandbox"}
    own = {"aud": ANY, "cognito:username": "sandbox", "email": "sandbox@example.org", "email_verified": True}
    assert identity == common | {"token_use": "id"} | own
    keys = requests.get(f"{claims['iss']}/.well-known/jwks.json", timeout=120).json()["keys"]
    key = next(jwt.PyJWK(key) for key in keys if key["kid"] == header["kid"])
    options = {"verify_exp": False, "verify_iat": False}
    assert jwt.decode(client.token, key, algorithms=["RS256"], options=options) == claims
    claims = jwt.decode(tokens["refresh_token"], options=OPEN)
    assert claims["exp"] - claims["iat"] == 90 * 86_400
    assert tokens["refresh_token"] != before["refresh_token"]
    client.token = tokens["refresh_token"]
    assert client.call("/v2/codes").status_code == 401


def test_login_refuses_without_saying_why(client):
    body = {"username": client.sandbox.username, "password": client.sandbox.password}
    for change in ({"username": "nobody"}, {"password": "wrong"}, {"username": "SANDBOX"}):
        answer = client.auth("login", body | change)
        assert answer.status_code == 401
        assert answer.text == '{"status":401,"message":"Incorrect username or password."}\n'
        assert answer.headers["Content-Type"] == "application/json; charset=utf-8"


NO_CREDENTIALS = {"status": 400, "message": "missing username or password"}
OPERATIONS = {
    "login": {"username": "a", "password": "b"}, "token-refresh": {"username": "a", "refresh_token": "b"},
    "token-revoke": {"refresh_token": "b"}, "forgot-password": {"username": "a"},
    "forgot-password-confirm": {"username": "a", "password": "b", "confirmation_code": "c"},
    "change-password": {"access_token": "a", "previous_password": "bbbbbb", "proposed_password": "cccccc"},
    "new-password-required": {"username": "a", "session": "b", "new_password": "cccccc"},
}  # fmt: skip


@pytest.mark.parametrize(("operation", "field"), [(o, f) for o, body in OPERATIONS.items() for f in body])
def test_a_body_that_does_not_bind_is_one_constant_422(client, operation, field):
    body = OPERATIONS[operation]
    assert client.auth(operation, body).status_code == 401
    too_long = "x" * 257 if "token" not in field and field not in ("session", "confirmation_code") else ""
    missing = {name: value for name, value in body.items() if name != field}
    for wrong in (missing, *(body | {field: value} for value in (7, too_long, body[field][:-1]))):
        answer = client.auth(operation, wrong, headers={"Accept": "application/x-ndjson"})
        assert answer.headers["Content-Type"] == "application/x-ndjson; charset=utf-8"
        if operation == "login" and not wrong.get(field):
            assert answer.json() == NO_CREDENTIALS
            continue
        assert (answer.status_code, answer.json()) == (422, NOT_SAID)
    # half a pair of surrogates is refused as any wrong text
    known = {"username": client.sandbox.username} if field != "username" else {}
    assert client.auth(operation, body | known | {field: "\udcff" * 6}).status_code == 401


def test_bodies_are_read_by_their_content_type(client):
    credentials = {"username": client.sandbox.username, "password": client.sandbox.password}
    assert client.call("/v1/login", "POST", data=credentials).status_code == 200
    as_text = client.call("/v1/login", "POST", data=json.dumps(credentials))
    assert (as_text.status_code, as_text.json()) == (400, NO_CREDENTIALS)
    typed = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert client.call("/v1/login", "POST", data=json.dumps(credentials), headers=typed).status_code == 200
    assert client.call("/v1/login", "POST", data=b"\xff=\xff").json() == NO_CREDENTIALS
    for broken in (b"{", b"[]", b"null"):
        answer = client.call("/v1/login", "POST", data=broken, headers={"Content-Type": "application/json"})
        assert answer.json() == NOT_SAID


def refresh(client, token, username="sandbox"):
    return client.auth("token-refresh", {"username": username, "refresh_token": token})


class TestRefresh:
    def test_makes_another_access_token_and_no_refresh_token(self, client):
        first = client.login()
        answer = refresh(client, first["refresh_token"])
        assert answer.status_code == 200
        assert list(answer.json()) == ["id_token", "access_token", "expires_in"]
        assert answer.json()["access_token"] != first["access_token"]
        client.token = answer.json()["access_token"]
        assert client.call("/v2/codes").status_code == 200
        client.sandbox.clock.advance(timedelta(days=90, seconds=-1))
        assert refresh(client, first["refresh_token"]).status_code == 200
        client.sandbox.clock.advance(timedelta(seconds=1))
        assert refusal(refresh(client, first["refresh_token"])) == (401, "Unauthorized.")

    def test_the_ninety_first_use_is_429_and_that_of_somebody_else_a_401(self, client):
        token = client.login()["refresh_token"]
        assert {refresh(client, token).status_code for _ in range(90)} == {200}
        assert refusal(refresh(client, token)) == (429, "Refresh tokens limit has been exceeded.")
        other = client.login()["refresh_token"]
        assert refresh(client, other).status_code == 200
        client.sandbox.accounts.create("other", "Other-1234")
        assert refusal(refresh(client, other, "other")) == (401, "Unauthorized.")


def test_a_revocation_ends_the_refresh_token_and_what_came_from_it(client):
    other, tokens = client.login(), client.login()
    client.sandbox.clock.advance(timedelta(seconds=1))
    refreshed = refresh(client, tokens["refresh_token"]).json()["access_token"]
    answer = client.auth("token-revoke", {"refresh_token": tokens["refresh_token"]})
    assert (answer.status_code, answer.content) == (204, b"")
    assert refusal(refresh(client, tokens["refresh_token"])) == (401, "Unauthorized.")
    for token in (tokens["access_token"], refreshed):
        client.token = token
        assert refusal(client.call("/v2/codes")) == (401, "NotAuthorizedException: Access Token has been revoked")
    client.token = other["access_token"]
    assert client.call("/v2/codes").status_code == 200
    assert refusal(client.auth("token-revoke", {"refresh_token": "x"})) == (401, "Unauthorized")


class TestForgottenPassword:
    def confirm(self, client, code, password=NEW):
        body = {"username": "sandbox", "password": password, "confirmation_code": code}
        return client.auth("forgot-password-confirm", body)

    def ask(self, client, username="sandbox"):
        answer = client.auth("forgot-password", {"username": username})
        assert (answer.status_code, answer.content) == (204, b"")
        return client.sandbox.accounts.outbox("sandbox")[-1].secret

    def test_is_replaced_with_the_newest_code_of_the_outbox(self, client):
        client.sandbox.accounts.create("invited", "Other-1234", temporary=True)
        first, code = self.ask(client), self.ask(client, "sandbox@example.org")
        assert [mail.purpose for mail in client.sandbox.accounts.outbox()] == ["invitation"] + ["forgot-password"] * 2
        assert client.sandbox.accounts.outbox("sandbox@example.org") == []
        client.sandbox.accounts.outbox()[0].path.unlink()
        code = self.ask(client)  # which leaves the mails that are there
        assert len(client.sandbox.accounts.outbox()) == 3
        assert (len(code), code.isdigit()) == (6, True)
        assert first == code or self.confirm(client, first).status_code == 401
        assert self.confirm(client, code).status_code == 204
        assert client.auth("login", {"username": "sandbox", "password": client.sandbox.password}).status_code == 401
        client.login(password=NEW)
        assert refusal(self.confirm(client, code))[1].startswith("ExpiredCodeException: ")

    def test_wrong_codes_and_weak_passwords(self, client):
        assert refusal(self.confirm(client, "123456"))[1].startswith("ExpiredCodeException: ")
        code = self.ask(client)
        mismatch = "CodeMismatchException: Invalid verification code provided, please try again."
        for wrong in (f"{(int(code) + 1) % 1_000_000:06d}", "ü"):
            assert refusal(self.confirm(client, wrong)) == (401, mismatch)
        for password, reason in (
            ("Ab1-", "not long enough"), ("lower-case-1", "uppercase"), ("UPPER-CASE-1", "lowercase"),
            ("No-digits-here", "numeric"), ("NoSymbols1", "symbol"),
        ):  # fmt: skip
            status, message = refusal(self.confirm(client, code, password))
            assert status == 401
            assert message.startswith("InvalidPasswordException: Password did not conform with policy: ")
            assert reason in message
        client.sandbox.clock.advance(timedelta(hours=1))
        assert self.confirm(client, code).status_code == 204
        code = self.ask(client)
        client.sandbox.clock.advance(timedelta(hours=1, seconds=1))
        assert refusal(self.confirm(client, code))[1].startswith("ExpiredCodeException: ")

    def test_is_not_sent_to_nobody_nor_to_an_account_without_group_or_with_a_temporary_password(self, client):
        client.sandbox.accounts.create("groupless", "Other-1234", groups=())
        client.sandbox.accounts.create("invited", "Other-1234", temporary=True)
        messages = dict.fromkeys(("who", "groupless", "invited"), "Internal error, please try again later.")
        for username, message in {"who@example.org": "User not found.", **messages}.items():
            assert refusal(client.auth("forgot-password", {"username": username})) == (401, message)
        body = {"username": "who", "password": NEW, "confirmation_code": "1"}
        assert refusal(client.auth("forgot-password-confirm", body))[1].startswith("UserNotFoundException: ")


def test_a_password_is_changed(client):
    body = {"access_token": client.token, "previous_password": client.sandbox.password, "proposed_password": "New-5678"}
    for change, reason in (
        ({"access_token": "x"}, "number of segments"),
        ({"previous_password": "wrong-one"}, "NotAuthorizedException: Incorrect"),
        ({"proposed_password": "too-weak"}, "InvalidPasswordException: Password did not conform with policy: "),
    ):
        answer = client.auth("change-password", body | change)
        assert refusal(answer) == (401, "Incorrect username or password.")
        assert reason in answer.headers["X-Sandbox-Reason"]
    client.login()
    answer = client.auth("change-password", body)
    assert (answer.status_code, answer.content) == (204, b"")
    assert client.call("/v2/codes").status_code == 200
    client.login(password="New-5678")


def test_an_invitation_and_its_challenge(client):
    def invite():
        wanted = {"username": "new", "groups": ["group_2"], "temporary": True}
        made = client.call("/sandbox/accounts", "POST", json=wanted).json()
        assert made["temporary"] is True
        sent = {"to": "new@example.org", "username": "new", "purpose": "invitation", "secret": made["password"]}
        assert client.call("/sandbox/outbox").json()[-1] == sent | {"sent_at": client.sandbox.clock.now().isoformat()}
        challenge = client.login("new", made["password"])
        assert list(challenge) == ["challenge_name", "session"]
        assert challenge["challenge_name"] == "NEW_PASSWORD_REQUIRED"
        return {"username": "new", "session": challenge["session"], "new_password": NEW}

    other, body = invite(), invite()
    for change in ({"session": "x"}, {"username": "sandbox"}, {"new_password": "too-weak"}):
        answer = client.auth("new-password-required", body | change)
        assert refusal(answer) == (401, "Unauthorized.")
        assert "Exception: " in answer.headers["X-Sandbox-Reason"]
    client.sandbox.clock.advance(timedelta(minutes=3))
    answer = client.auth("new-password-required", body)
    assert answer.status_code == 200
    assert list(answer.json()) == ["id_token", "access_token", "refresh_token", "expires_in", "session"]
    assert "refresh_token" in client.login("new", NEW)
    # one session opens one time, and for some minutes only
    for spent in (body, other):
        assert refusal(client.auth("new-password-required", spent)) == (401, "Unauthorized.")
    body = invite()
    client.sandbox.clock.advance(timedelta(minutes=3, seconds=1))
    assert refusal(client.auth("new-password-required", body)) == (401, "Unauthorized.")
    assert client.call("/sandbox/outbox").json()[0]["sent_at"] == client.NOW.isoformat()
    mails = client.sandbox.accounts.outbox("new")
    assert mails[0].secret != mails[1].secret
    assert all((mail.path.stat().st_mode | mail.path.parent.stat().st_mode) & 0o077 == 0 for mail in mails)


class TestBearer:
    def test_refusals_name_the_cause(self, client):
        (header, _, signature), key = client.token.split("."), client.sandbox.mint._private
        claims = jwt.decode(client.token, options=OPEN)
        for wrong, cause in (
            ("", "Unauthorized"), ("a.b", "token contains an invalid number of segments"),
            ("~.b.c", "illegal base64 data at input byte 0"), ("W10.b.c", "illegal base64 data at input byte 0"),
            (jwt.encode(claims, "x" * 32, "HS256"), "unexpected signing method: HS256"),
            (jwt.encode(claims, key, "RS256"), "kid header not found"),
            (jwt.encode(claims, key, "RS256", {"kid": "other"}), "key not found"),
            (f"{header}.e30.{signature}", "crypto/rsa: verification error"),
            (client.login()["id_token"], "incorrect client id"),
        ):  # fmt: skip
            client.token = wrong
            assert refusal(client.call("/v2/codes")) == (401, cause)

    def test_an_expired_token_is_refused_by_a_text_alone(self, client):
        client.sandbox.clock.set(datetime.now(UTC) + timedelta(days=1))  # ahead of this machine
        client.login()
        client.sandbox.clock.advance(timedelta(seconds=86_399))
        Client(client.sandbox, client.session).login()
        for authorization in (f"Bearer {client.token}", client.token):
            assert client.call("/v2/codes", headers={"Authorization": authorization}).status_code == 200
        for later in (1, 3723):
            client.sandbox.clock.advance(timedelta(seconds=later))
            answer = client.call("/v2/codes")
            told = (answer.status_code, answer.text, answer.headers["Content-Type"])
            assert told == (401, "Jwt is expired", "text/plain")
        client.sandbox.accounts.admissions.admit("127.0.0.0/8")
        assert client.call("/v2/codes").status_code == 200


def test_an_account_tells_groups_counters_and_permissions(client):
    client.sandbox.accounts.create("free", "Other-1234")
    client.login("free", "Other-1234")
    client.sandbox.accounts.set_quota("free", "snapshot", used=30)
    told = client.call("/v1/get-user", "POST").json()
    apis = told.pop("apis")
    assert told == {
        "groups": ["group_1"], "ondemand_requests_count": 0, "ondemand_limit": 50_000, "snapshot_requests_count": 30,
        "snapshot_limit": 30, "chunk_requests_count": 0, "chunk_limit": 1_500, "username": "free",
    }  # fmt: skip
    assert {"path": "/v2/projects", "method": "POST"} in apis
    assert not any("batches" in api["path"] for api in apis)
    client.sandbox.accounts.set_groups("free", ["group_3"])
    client.sandbox.accounts.set_quota("free", "batch", limit=3)
    told = client.call("/v1/get-user", "POST").json()
    assert (told["batch_requests_count"], told["batch_limit"]) == (0, 3)
    apis = told["apis"]
    served = [one for one in (*app.OPERATIONS, *streams.OPERATIONS) if one.groups]
    assert apis == [{"path": one.path, "method": method} for one in served for method in one.methods]
    # the token may be in the body alone, here and nowhere else
    assert client.call("/v1/get-user", "POST", json={"access_token": "x"}).json() == told
    token, client.token = client.token, ""
    body = {"access_token": token}
    for options in ({"json": body}, {"data": body}, {"files": {"access_token": (None, token)}}):
        assert client.call("/v1/get-user", "POST", **options).json()["username"] == "free"
    assert client.call("/v2/projects", "POST", json=body).status_code == 401
    for wrong in (b"", b"{", b"[]", b'{"access_token": 5}', b'{"access_token": "x"}'):
        answer = client.call("/v1/get-user", "POST", data=wrong, headers={"Content-Type": "application/json"})
        assert answer.status_code == 401
    client.sandbox.accounts.admissions.admit("127.0.0.0/8")
    assert client.call("/v1/get-user", "POST").status_code == 401


def test_keys_and_accounts_outlive_the_sandbox(tmp_path, signing_key):
    with small_sandbox(tmp_path, signing_key) as first:
        tokens, password = first.login(), first.sandbox.password
        first.sandbox.accounts.exhaust("sandbox")
        state, clock = first.sandbox.settings.state, first.sandbox.clock

    def started():
        return closing(Accounts(state, clock, TokenMint(state, clock, "http://elsewhere")))

    for name in ("signing-key.pem", "account.json"):
        assert (state / name).stat().st_mode & 0o077 == 0
    with started() as accounts:
        assert accounts.password == password
        assert password not in repr(accounts)
        granted = accounts.login("sandbox", password)
        assert granted.access_token not in repr(granted)
        assert accounts.identify(tokens["access_token"]).username == "sandbox"
        with pytest.raises(RefreshTokenSpentError):
            accounts.refresh("sandbox", tokens["refresh_token"])
    # a start after a kill between file and database believes the file
    for name, given in (("sandbox", NEW), ("mine", NEW), ("mine", "Newer-1234")):
        (state / "account.json").write_text(json.dumps({"username": name, "password": given}))
        with started() as accounts:
            assert accounts.login(name, given)
    (state / "account.json").write_text('{"username": "sandbox", "password": 1}')
    with pytest.raises(ValueError, match=r"account\.json is damaged\. Nothing was changed\.") as caught, started():
        pass
    assert str(state) not in str([fd.resolve() for fd in Path("/proc/self/fd").iterdir()]), caught  # closed as well
    (state / "account.json").unlink()
    (state / "account.part").touch()  # of a start that was killed
    with started() as accounts:
        assert accounts.password not in (password, NEW)
        assert accounts.login("sandbox", accounts.password)


def test_the_file_of_the_default_account_opens_it_whatever_became_of_its_password(client, monkeypatch):
    path, first = client.sandbox.settings.state / "account.json", client.sandbox.password

    def becomes(password):
        told = json.loads(path.read_bytes())
        assert told == {"username": "sandbox", "password": password}
        assert path.stat().st_mode & 0o077 == 0
        return client.auth("login", told).json()

    change = {"access_token": client.token, "previous_password": first}
    assert client.auth("change-password", {**change, "proposed_password": "weak-one"}).status_code == 401
    client.sandbox.accounts.create("other", "Start-1234")
    client.sandbox.accounts.set_password("other", NEW)
    assert "access_token" in becomes(first)
    assert client.auth("change-password", {**change, "proposed_password": NEW}).status_code == 204
    assert "access_token" in becomes(NEW)
    client.call("/sandbox/accounts", "POST", json={"username": "sandbox", "password": "Between-1"})
    assert "access_token" in becomes("Between-1")
    client.auth("forgot-password", {"username": "sandbox"})
    code = client.sandbox.accounts.outbox("sandbox")[-1].secret
    body = {"username": "sandbox", "password": NEW, "confirmation_code": code}
    assert client.auth("forgot-password-confirm", body).status_code == 204
    assert "access_token" in becomes(NEW)
    temporary = {"username": "sandbox", "password": "Temporary-1", "temporary": True}
    assert client.call("/sandbox/accounts", "POST", json=temporary).status_code == 200
    body = {"username": "sandbox", "session": becomes("Temporary-1")["session"], "new_password": "Lasting-1"}
    assert client.auth("new-password-required", body).status_code == 200
    assert "access_token" in becomes("Lasting-1")
    # the file is written first: a process that is killed before the database has it starts with the new password
    monkeypatch.setattr(client.sandbox.accounts, "_update_user", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        client.sandbox.accounts.set_password("sandbox", "Killed-1")
    assert json.loads(path.read_bytes())["password"] == "Killed-1"
