"""`POST /v1/get-user` is undocumented: the token goes both ways, and nothing depends on an answer."""

import pytest

from resources.enterprise import errors
from tests.unit.enterprise.loopback import PASSWORD, Reply, error_reply, html_reply, json_reply

PATH = "/v1/get-user"


@pytest.mark.parametrize(
    "reply",
    [
        error_reply(400, "no"), error_reply(401, "Unauthorized"), error_reply(403, "Forbidden"),
        error_reply(404, "Not Found"), error_reply(422, "no"), error_reply(429, "Too Many Requests"),
        error_reply(500, "no"), html_reply(404), json_reply({"chunk_limit": 10**30}), Reply(200, b"Jwt is expired"),
    ],
)  # fmt: skip
def test_a_snapshot_is_fetched_and_a_password_changed_where_the_account_is_not_described(
    client, fake, tmp_path, caplog, reply
):
    fake.add_snapshot("frwiki_namespace_0", b"a" * 50, b"b" * 50)
    fake.script(PATH, *[reply] * 99)
    for _ in range(2):
        plan = client.snapshots.plan("frwiki_namespace_0", tmp_path / "snapshots")
        assert plan.units_left is None
        client.snapshots.download(plan)
    assert client.account.known_user() is None
    told = [one for one in caplog.messages if "groups and quotas are unknown" in one]
    assert len(told) == 1
    with pytest.raises(errors.EnterpriseError):
        client.account.user()
    client.account.change_password(PASSWORD, "AnotherPhrase-Kept-Secret-2!")
    assert fake.password == "AnotherPhrase-Kept-Secret-2!"


def test_the_token_is_in_the_header_and_in_the_body(client, fake):
    def by_body(request):
        known = request.json["access_token"] in fake._access
        return json_reply({"username": "by body"}) if known else error_reply(401, "Unauthorized")

    fake.script(PATH, by_body, by_body, by_body)
    assert client.account.user().username == "by body"
    fake.revoke_access()
    assert client.account.user().username == "by body"  # with another token, in the body too
    for request in fake.api.seen(PATH):
        assert request.headers["authorization"] == f"Bearer {request.json['access_token']}"


def test_an_account_that_is_refused_is_no_unknown_quota(make_client, fake):
    with pytest.raises(errors.AuthenticationError, match="log in as"):
        make_client(password="another").account.quotas()
