"""The eight operations of `/v1` over HTTP: status codes, bodies, and the states they move an account through."""

from __future__ import annotations

import base64
import hmac
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import jwt
import pytest
import requests

from resources.sandbox.accounts.accounts import Accounts
from resources.sandbox.accounts.tokens import TokenMint
from resources.sandbox.accounts.users import RefreshTokenSpentError

NOT_SAID = {"status": 422, "message": "Internal error, please try again later."}


def refusal(answer):
    return answer.status_code, answer.json()["message"]


def test_login_hands_out_tokens_that_open_data(client):
    tokens = client.login()
    assert list(tokens) == ["id_token", "access_token", "refresh_token", "expires_in"]
    assert tokens["expires_in"] == 86_400
    assert client.call("/v2/codes").status_code == 200


def test_access_token_is_rs256_and_verifies_against_the_published_keys(client):
    header = jwt.get_unverified_header(client.token)
    claims = jwt.decode(client.token, options={"verify_signature": False})
    assert header["alg"] == "RS256"
    assert claims["iss"] == f"{client.sandbox.url}/pool"
    assert claims["cognito:groups"] == ["group_3"]
    assert claims["exp"] - claims["iat"] == 86_400
    keys = requests.get(f"{claims['iss']}/.well-known/jwks.json", timeout=120).json()["keys"]
    key = next(jwt.PyJWK(key) for key in keys if key["kid"] == header["kid"])
    options = {"verify_exp": False, "verify_iat": False}
    assert jwt.decode(client.token, key, algorithms=["RS256"], options=options) == claims


@pytest.mark.parametrize("change", [{"username": "nobody"}, {"password": "wrong"}, {"username": "SANDBOX"}])
def test_login_refuses_without_saying_why(client, change):
    body = {"username": client.sandbox.username, "password": client.sandbox.password, **change}
    answer = client.auth("login", body)
    assert answer.status_code == 401
    assert answer.text == '{"status":401,"message":"Incorrect username or password."}\n'
    assert answer.headers["Content-Type"] == "application/json; charset=utf-8"


NO_CREDENTIALS = {"status": 400, "message": "missing username or password"}
OPERATIONS = {
    "login": {"username": "a", "password": "b"},
    "token-refresh": {"username": "a", "refresh_token": "b"},
    "token-revoke": {"refresh_token": "b"},
    "forgot-password": {"username": "a"},
    "forgot-password-confirm": {"username": "a", "password": "b", "confirmation_code": "c"},
    "change-password": {"access_token": "a", "previous_password": "bbbbbb", "proposed_password": "cccccc"},
    "new-password-required": {"username": "a", "session": "b", "new_password": "cccccc"},
}


@pytest.mark.parametrize(("operation", "field"), [(o, f) for o, body in OPERATIONS.items() for f in body])
def test_a_body_that_does_not_bind_is_one_constant_422(client, operation, field):
    body = OPERATIONS[operation]
    assert client.auth(operation, body).status_code == 401
    too_long = "x" * 300 if "token" not in field and field not in ("session", "confirmation_code") else ""
    for wrong in ({k: v for k, v in body.items() if k != field}, body | {field: 7}, body | {field: too_long}):
        answer = client.auth(operation, wrong)
        if operation == "login" and field not in wrong:
            assert answer.json() == NO_CREDENTIALS
            continue
        assert answer.status_code == 422
        assert answer.json() == NOT_SAID


@pytest.mark.parametrize(("operation", "field"), [(o, f) for o, body in OPERATIONS.items() for f in body])
def test_half_a_pair_of_surrogates_is_refused_as_any_wrong_text(client, operation, field):
    credentials = {"username": client.sandbox.username} if field != "username" else {}
    answer = client.auth(operation, OPERATIONS[operation] | credentials | {field: "\udcff" * 6})
    assert answer.status_code == 401


def test_passwords_shorter_than_six_do_not_bind(client):
    for operation, field in (("change-password", "proposed_password"), ("new-password-required", "new_password")):
        assert client.auth(operation, OPERATIONS[operation] | {field: "x" * 5}).json() == NOT_SAID


def test_bodies_are_read_by_their_content_type(client):
    url, credentials = (
        f"{client.sandbox.url}/v1/login",
        {"username": client.sandbox.username, "password": client.sandbox.password},
    )
    assert client.session.post(url, data=credentials, timeout=120).status_code == 200
    as_text = client.session.post(url, data=json.dumps(credentials), timeout=120)
    assert (as_text.status_code, as_text.json()) == (400, NO_CREDENTIALS)
    for broken in (b"{", b"[]", b"null"):
        answer = client.session.post(url, data=broken, headers={"Content-Type": "application/json"}, timeout=120)
        assert answer.json() == NOT_SAID


def test_errors_take_the_content_type_that_is_accepted(client):
    answer = client.auth("token-refresh", {}, headers={"Accept": "application/x-ndjson"})
    assert answer.headers["Content-Type"].startswith("application/x-ndjson")
    assert answer.json() == NOT_SAID


class TestRefresh:
    def test_makes_another_access_token_and_no_refresh_token(self, client):
        first = client.login()
        answer = client.auth("token-refresh", {"username": "sandbox", "refresh_token": first["refresh_token"]})
        assert answer.status_code == 200
        assert list(answer.json()) == ["id_token", "access_token", "expires_in"]
        assert answer.json()["access_token"] != first["access_token"]
        client.token = answer.json()["access_token"]
        assert client.call("/v2/codes").status_code == 200

    def test_the_ninety_first_use_is_429(self, client):
        body = {"username": "sandbox", "refresh_token": client.login()["refresh_token"]}
        statuses = [client.auth("token-refresh", body).status_code for _ in range(90)]
        assert set(statuses) == {200}
        answer = client.auth("token-refresh", body)
        assert refusal(answer) == (429, "Refresh tokens limit has been exceeded.")
        other = {"username": "sandbox", "refresh_token": client.login()["refresh_token"]}
        assert client.auth("token-refresh", other).status_code == 200

    def test_ends_after_ninety_days(self, client):
        body = {"username": "sandbox", "refresh_token": client.login()["refresh_token"]}
        client.sandbox.clock.advance(timedelta(days=90, seconds=-1))
        assert client.auth("token-refresh", body).status_code == 200
        client.sandbox.clock.advance(timedelta(seconds=1))
        assert refusal(client.auth("token-refresh", body)) == (401, "Unauthorized.")

    def test_of_somebody_else_is_refused(self, client):
        client.sandbox.accounts.create("other", "Other-1234")
        body = {"username": "other", "refresh_token": client.login()["refresh_token"]}
        assert refusal(client.auth("token-refresh", body)) == (401, "Unauthorized.")


class TestRevoke:
    def test_ends_the_refresh_token_and_what_came_from_it(self, client):
        tokens = client.login()
        refresh = {"username": "sandbox", "refresh_token": tokens["refresh_token"]}
        refreshed = client.auth("token-refresh", refresh).json()["access_token"]
        answer = client.auth("token-revoke", {"refresh_token": tokens["refresh_token"]})
        assert (answer.status_code, answer.content) == (204, b"")
        assert refusal(client.auth("token-refresh", refresh)) == (401, "Unauthorized.")
        for token in (tokens["access_token"], refreshed):
            client.token = token
            assert refusal(client.call("/v2/codes")) == (401, "NotAuthorizedException: Access Token has been revoked")

    def test_leaves_other_logins(self, client):
        first, second = client.login(), client.login()
        client.auth("token-revoke", {"refresh_token": first["refresh_token"]})
        client.token = second["access_token"]
        assert client.call("/v2/codes").status_code == 200

    def test_of_an_unknown_token(self, client):
        assert refusal(client.auth("token-revoke", {"refresh_token": "x"})) == (401, "Unauthorized")


class TestForgottenPassword:
    def confirm(self, client, code, password="Another-5678"):
        body = {"username": "sandbox", "password": password, "confirmation_code": code}
        return client.auth("forgot-password-confirm", body)

    def ask(self, client, username="sandbox"):
        answer = client.auth("forgot-password", {"username": username})
        assert (answer.status_code, answer.content) == (204, b"")
        return client.sandbox.accounts.outbox("sandbox")[-1].secret

    def test_is_replaced_with_the_code_of_the_outbox(self, client):
        code = self.ask(client)
        assert len(code) == 6
        assert code.isdigit()
        assert self.confirm(client, code).status_code == 204
        assert client.auth("login", {"username": "sandbox", "password": client.sandbox.password}).status_code == 401
        client.login(password="Another-5678")
        assert refusal(self.confirm(client, code))[1].startswith("ExpiredCodeException: ")

    def test_can_be_asked_for_by_e_mail(self, client):
        assert self.confirm(client, self.ask(client, "sandbox@example.org")).status_code == 204

    def test_wrong_codes(self, client):
        assert refusal(self.confirm(client, "123456"))[1].startswith("ExpiredCodeException: ")
        code = self.ask(client)
        wrong = f"{(int(code) + 1) % 1_000_000:06d}"
        assert refusal(self.confirm(client, wrong))[1].startswith("CodeMismatchException: ")
        assert refusal(self.confirm(client, "ü")) == (
            401,
            "CodeMismatchException: Invalid verification code provided, please try again.",
        )
        client.sandbox.clock.advance(timedelta(hours=1, seconds=1))
        assert refusal(self.confirm(client, code))[1].startswith("ExpiredCodeException: ")

    def test_a_newer_code_replaces_the_older(self, client):
        first, second = self.ask(client), self.ask(client)
        if first != second:
            assert self.confirm(client, first).status_code == 401
        assert self.confirm(client, second).status_code == 204
        assert [mail.purpose for mail in client.sandbox.accounts.outbox()] == ["forgot-password"] * 2

    @pytest.mark.parametrize(
        ("password", "reason"),
        [
            ("Ab1-", "not long enough"),
            ("lower-case-1", "uppercase"),
            ("UPPER-CASE-1", "lowercase"),
            ("No-digits-here", "numeric"),
            ("NoSymbols1", "symbol"),
        ],
    )
    def test_the_policy_names_what_is_missing(self, client, password, reason):
        code = self.ask(client)
        status, message = refusal(self.confirm(client, code, password))
        assert status == 401
        assert message.startswith("InvalidPasswordException: Password did not conform with policy: ")
        assert reason in message
        assert self.confirm(client, code).status_code == 204

    def test_of_nobody(self, client):
        answer = client.auth("forgot-password", {"username": "who@example.org"})
        assert refusal(answer) == (401, "User not found.")
        answer = client.auth("forgot-password", {"username": "who"})
        assert refusal(answer) == (401, "Internal error, please try again later.")
        body = {"username": "who", "password": "Another-5678", "confirmation_code": "1"}
        assert refusal(client.auth("forgot-password-confirm", body))[1].startswith("UserNotFoundException: ")

    def test_is_not_sent_to_an_account_without_group_or_with_a_temporary_password(self, client):
        client.sandbox.accounts.create("groupless", "Other-1234", groups=())
        client.sandbox.accounts.create("invited", "Other-1234", temporary=True)
        for username in ("groupless", "invited"):
            answer = client.auth("forgot-password", {"username": username})
            assert refusal(answer) == (401, "Internal error, please try again later.")


class TestChangePassword:
    def change(self, client, **change):
        body = {
            "access_token": client.token,
            "previous_password": client.sandbox.password,
            "proposed_password": "Another-5678",
        }
        return client.auth("change-password", body | change)

    def test_changes_it(self, client):
        answer = self.change(client)
        assert (answer.status_code, answer.content) == (204, b"")
        assert client.call("/v2/codes").status_code == 200
        client.login(password="Another-5678")

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"access_token": "x"}, "number of segments"),
            ({"previous_password": "wrong-one"}, "NotAuthorizedException: Incorrect"),
            ({"proposed_password": "too-weak"}, "InvalidPasswordException: Password did not conform with policy: "),
        ],
    )
    def test_refuses_without_saying_why_but_in_a_header_of_its_own(self, client, change, reason):
        answer = self.change(client, **change)
        assert refusal(answer) == (401, "Incorrect username or password.")
        assert reason in answer.headers["X-Sandbox-Reason"]
        client.login()


class TestChallenge:
    @pytest.fixture
    def invited(self, client):
        client.sandbox.accounts.create("invited", "Temporary-1", groups=("group_2",), temporary=True)
        return client

    def test_the_invitation_lies_in_the_outbox(self, invited):
        (mail,) = invited.sandbox.accounts.outbox("invited")
        assert (mail.purpose, mail.secret, mail.to) == ("invitation", "Temporary-1", "invited@example.org")
        assert mail.path.stat().st_mode & 0o077 == 0

    def test_first_login_is_answered_with_a_challenge(self, invited):
        challenge = invited.login("invited", "Temporary-1")
        assert list(challenge) == ["challenge_name", "session"]
        assert challenge["challenge_name"] == "NEW_PASSWORD_REQUIRED"
        body = {"username": "invited", "session": challenge["session"], "new_password": "Permanent-1"}
        answer = invited.auth("new-password-required", body)
        assert answer.status_code == 200
        assert list(answer.json()) == ["id_token", "access_token", "refresh_token", "expires_in", "session"]
        assert "refresh_token" in invited.login("invited", "Permanent-1")
        assert refusal(invited.auth("new-password-required", body)) == (401, "Unauthorized.")

    @pytest.mark.parametrize("change", [{"session": "x"}, {"username": "sandbox"}, {"new_password": "too-weak"}])
    def test_refusals(self, invited, change):
        session = invited.login("invited", "Temporary-1")["session"]
        body = {"username": "invited", "session": session, "new_password": "Permanent-1"}
        assert refusal(invited.auth("new-password-required", body | change)) == (401, "Unauthorized.")
        assert invited.auth("new-password-required", body).status_code == 200

    def test_a_session_ends(self, invited):
        session = invited.login("invited", "Temporary-1")["session"]
        invited.sandbox.clock.advance(timedelta(minutes=3, seconds=1))
        body = {"username": "invited", "session": session, "new_password": "Permanent-1"}
        assert refusal(invited.auth("new-password-required", body)) == (401, "Unauthorized.")


class TestBearer:
    def forged(self, token, *, header=None, claims=None):
        parts = token.split(".")
        for index, change in ((0, header), (1, claims)):
            if change is not None:
                content = json.loads(base64.urlsafe_b64decode(parts[index] + "=="))
                content = {k: v for k, v in (content | change).items() if v is not None}
                parts[index] = base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()
        return ".".join(parts)

    def message(self, client, token):
        client.token = token
        answer = client.call("/v2/codes")
        assert answer.status_code == 401
        return answer.json()["message"]

    def test_refusals_name_the_cause(self, client):
        token = client.token
        id_token = client.login()["id_token"]
        assert self.message(client, "") == "Unauthorized"
        assert self.message(client, "a.b") == "token contains an invalid number of segments"
        assert self.message(client, "~.b.c") == "illegal base64 data at input byte 0"
        assert self.message(client, "W10.b.c") == "illegal base64 data at input byte 0"
        assert self.message(client, self.forged(token, header={"alg": "HS256"})) == "unexpected signing method: HS256"
        assert self.message(client, self.forged(token, header={"kid": None})) == "kid header not found"
        assert self.message(client, self.forged(token, header={"kid": "other"})) == "key not found"
        assert self.message(client, self.forged(token, claims={"username": "x"})) == "crypto/rsa: verification error"
        assert self.message(client, id_token) == "incorrect client id"

    @pytest.mark.parametrize("late", [0, 3723])
    def test_an_expired_token_is_refused_by_a_text_alone(self, client, late):
        client.sandbox.clock.advance(timedelta(seconds=86_399))
        assert client.call("/v2/codes").status_code == 200
        client.sandbox.clock.advance(timedelta(seconds=1 + late))
        answer = client.call("/v2/codes")
        told = (answer.status_code, answer.text, answer.headers["Content-Type"])
        assert told == (401, "Jwt is expired", "text/plain")

    def test_without_the_word_bearer(self, client):
        token, client.token = client.token, ""
        assert client.call("/v2/codes", headers={"Authorization": token}).status_code == 200


class TestGetUser:
    def get(self, client, **options):
        return client.auth("get-user", {}, headers={"Authorization": f"Bearer {client.token}"}, **options)

    def test_tells_groups_counters_and_permissions(self, client):
        client.sandbox.accounts.create("free", "Other-1234")
        client.login("free", "Other-1234")
        client.sandbox.accounts.set_quota("free", "snapshot", used=30)
        answer = self.get(client)
        assert answer.status_code == 200
        apis = answer.json().pop("apis")
        assert answer.json() | {"apis": None} == {
            "groups": ["group_1"],
            "ondemand_requests_count": 0,
            "ondemand_limit": 50_000,
            "snapshot_requests_count": 30,
            "snapshot_limit": 30,
            "chunk_requests_count": 0,
            "chunk_limit": 1_500,
            "username": "free",
            "apis": None,
        }
        assert {"path": "/v2/projects", "method": "POST"} in apis
        assert not any("batches" in api["path"] for api in apis)

    def test_needs_a_token(self, client):
        client.sandbox.accounts.admissions.admit("127.0.0.0/8")
        client.token = ""
        assert self.get(client).status_code == 401


def test_keys_and_accounts_outlive_the_sandbox(make_client):
    first = make_client()
    tokens = first.login()
    password = first.sandbox.password
    first.sandbox.accounts.exhaust("sandbox")
    first.sandbox.close()
    # The lock is held by this process's first sandbox; the folder's files are what is looked at here.
    state, clock = first.sandbox.settings.state, first.sandbox.clock
    accounts = Accounts(state, clock, TokenMint(state, clock, "http://elsewhere"))
    assert accounts.password == password
    assert accounts.identify(tokens["access_token"]).username == "sandbox"
    with pytest.raises(RefreshTokenSpentError):
        accounts.refresh("sandbox", tokens["refresh_token"])
    accounts.close()
    for name in ("signing-key.pem", "account.json"):
        assert (state / name).stat().st_mode & 0o077 == 0


def test_a_removed_account_file_gets_the_default_account_a_new_password(make_client):
    first = make_client()
    first.sandbox.close()
    state, clock = first.sandbox.settings.state, first.sandbox.clock
    (state / "account.json").unlink()
    accounts = Accounts(state, clock, TokenMint(state, clock, "http://elsewhere"))
    assert not hmac.compare_digest(accounts.password, first.sandbox.password)
    accounts.login("sandbox", accounts.password)
    accounts.close()


class TestDefaultAccountsFile:
    """`account.json` opens the default account whatever became of its password."""

    NEW = "Another-5678"

    @staticmethod
    def written(client):
        return json.loads((client.sandbox.settings.state / "account.json").read_bytes())

    def opens(self, client):
        told = self.written(client)
        assert told == {"username": "sandbox", "password": self.NEW}
        assert (client.sandbox.settings.state / "account.json").stat().st_mode & 0o077 == 0
        return client.auth("login", told).status_code == 200

    def test_after_a_change_a_forgotten_password_and_a_control_request(self, client):
        change = {"access_token": client.token, "previous_password": client.sandbox.password}
        assert client.auth("change-password", {**change, "proposed_password": self.NEW}).status_code == 204
        assert self.opens(client)
        client.call("/sandbox/accounts", "POST", json={"username": "sandbox", "password": "Between-1"})
        assert self.written(client)["password"] == "Between-1"
        client.auth("forgot-password", {"username": "sandbox"})
        code = client.sandbox.accounts.outbox("sandbox")[-1].secret
        body = {"username": "sandbox", "password": self.NEW, "confirmation_code": code}
        assert client.auth("forgot-password-confirm", body).status_code == 204
        assert self.opens(client)

    def test_after_a_challenge(self, client):
        temporary = {"username": "sandbox", "password": "Temporary-1", "temporary": True}
        assert client.call("/sandbox/accounts", "POST", json=temporary).status_code == 200
        assert self.written(client)["password"] == "Temporary-1"
        session = client.auth("login", self.written(client)).json()["session"]
        body = {"username": "sandbox", "session": session, "new_password": self.NEW}
        assert client.auth("new-password-required", body).status_code == 200
        assert self.opens(client)

    def test_a_refused_change_leaves_it(self, client):
        before = self.written(client)
        body = {
            "access_token": client.token,
            "previous_password": client.sandbox.password,
            "proposed_password": "weak-one",
        }
        assert client.auth("change-password", body).status_code == 401
        assert self.written(client) == before

    def test_the_account_of_another_name_leaves_it(self, client):
        before = self.written(client)
        client.sandbox.accounts.create("other", "Start-1234")
        client.sandbox.accounts.set_password("other", self.NEW)
        assert self.written(client) == before

    def test_a_start_after_a_kill_between_file_and_database_believes_the_file(self, make_client):
        first = make_client()
        first.sandbox.close()
        state, clock = first.sandbox.settings.state, first.sandbox.clock
        (state / "account.json").write_text(json.dumps({"username": "sandbox", "password": self.NEW}))
        accounts = Accounts(state, clock, TokenMint(state, clock, "http://elsewhere"))
        assert accounts.login("sandbox", self.NEW)
        accounts.close()


def test_secrets_stand_in_no_representation(client):
    tokens = client.sandbox.accounts.login("sandbox", client.sandbox.password)
    assert tokens.access_token not in repr(tokens)
    assert client.sandbox.password not in repr(client.sandbox.accounts)


def test_account_operations_of_nobody_and_twice(client):
    from resources.sandbox.accounts.users import AccountError

    accounts = client.sandbox.accounts
    with pytest.raises(AccountError):
        accounts.set_groups("nobody", ["group_1"])
    with pytest.raises(ValueError, match="already has an account sandbox"):
        accounts.create("sandbox", "Other-1234")


def test_counters_are_exact_under_threads(client):
    accounts = client.sandbox.accounts
    user = accounts.identify(client.token)
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


def test_a_user_that_is_gone_is_refused(client):
    client.sandbox.accounts.create("leaver", "Other-1234")
    client.login("leaver", "Other-1234")
    client.sandbox.accounts._database.change("DELETE FROM users WHERE username = 'leaver'")
    assert client.call("/v2/codes").json()["message"].startswith("UserNotFoundException")
