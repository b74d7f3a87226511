"""Passwords, tokens and signed addresses are in no log, no exception text, no traceback and no repr."""

import logging
import re
import traceback

import pytest

from resources.enterprise import errors, models
from resources.enterprise.errors import Redactor, without_any_query
from tests.unit.enterprise.fake_service import PASSWORD
from tests.unit.enterprise.loopback import Reply, error_reply, html_reply, json_reply

SECRET = re.compile(
    r"PassPhrase-Kept|Wrong-Password|Another-Pass|ISSUEDSECRET|SIGNEDSECRET|SESSIONSECRET|ECHOED|X-Amz-Signature=(?!\[)"
)
NAME = "enwiki_namespace_0"
PATH = f"/v2/batches/2026-11-01/05/{NAME}"


def echo(request):
    """A service that repeats everything it was sent, in the message of its error."""
    sent = f"{request.headers.get('authorization')} {request.body.decode()}"
    return error_reply(500 if request.path.endswith("login") else 400, f"cannot handle {sent}")


def echo_401(request):
    return error_reply(401, f"CodeMismatchException: {request.body.decode()}")


def signature_error(request):
    return Reply(403, f"<Error><StringToSign>{request.query}</StringToSign></Error>".encode())


def odd_headers(connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\nno header\r\n\r\n")


def logged_in(make_client):
    client = make_client()
    client.account.login()
    return client


def posed(fake, challenge="NEW_PASSWORD_REQUIRED"):
    fake.challenge = challenge


def redirected(fake, url, times=1):
    """The service redirects downloads to there; nobody listens on port 9."""
    fake.script(PATH + "/download", *[Reply(307, b"", {"Location": f"{url}?X-Amz-Signature=SIGNEDSECRET1"})] * times)


ODD_TOKENS = json_reply({"access_token": ["ISSUEDSECRET"], "refresh_token": {"ISSUEDSECRET": 1}})
NEW = "Another-Pass-2!"
FAILURES = {
    "wrong password": lambda c, f, b: c(password="Wrong-Password-7").account.login(),
    "challenge": lambda c, f, b: (posed(f), c().account.login()),
    "unknown challenge": lambda c, f, b: (posed(f, ".".join(["ISSUEDSECRET"] * 3)), c().account.login()),
    "login echoed": lambda c, f, b: (f.script("/v1/login", *[echo] * 9), c().account.login()),
    "login of odd form": lambda c, f, b: (f.script("/v1/login", ODD_TOKENS), c().account.login()),
    "refresh echoed": lambda c, f, b: (f.script("/v1/token-refresh", *[echo] * 9), logged_in(c).account.refresh()),
    "revoke echoed": lambda c, f, b: (f.script("/v1/token-revoke", *[echo] * 9), logged_in(c).account.revoke()),
    "code echoed": lambda c, f, b: (
        f.script("/v1/forgot-password-confirm", echo_401), c().account.confirm_password("ECHOED-CODE", NEW)
    ),
    "echo": lambda c, f, b: (f.script("/v1/change-password", *[echo] * 9), c().account.change_password(PASSWORD, NEW)),
    "new password echoed": lambda c, f, b: (
        posed(f), f.script("/v1/new-password-required", echo_401), c().account.new_password(NEW)
    ),
    "refused": lambda c, f, b: (f.script("/v2/codes", *[error_reply(401, "x")] * 9), c().lists.reference("codes")),
    "list echoed": lambda c, f, b: (f.script("/v2/codes", *[echo] * 9), c().lists.reference("codes")),
    "cut off": lambda c, f, b: (f.script("/v2/codes", *[Reply(200, b"[ ]", cut=1)] * 9), c().lists.reference("codes")),
    "list of html": lambda c, f, b: (f.script("/v2/codes", *[html_reply()] * 9), c().lists.reference("codes")),
    "no connection": lambda c, f, b: c(auth_url="http://127.0.0.1:9").account.login(),
    "spent": lambda c, f, b: (logged_in(c), f.revoke(), c(password=None).lists.reference("codes")),
    "limited": lambda c, f, b: (f.script("/v2/codes", *[error_reply(429, "x")] * 9), c().lists.reference("codes")),
    "store refuses": lambda c, f, b: (f.script("/objects/*", *[signature_error] * 9), b(c())),
    "store away": lambda c, f, b: (redirected(f, "http://127.0.0.1:9/o", 9), b(c())),
    "store cuts": lambda c, f, b: (f.cut(*[10] * 9), b(c())),
    "store drops": lambda c, f, b: (f.script("/objects/*", *[Reply(drop=True)] * 9), b(c())),
    "store 500": lambda c, f, b: (f.script("/objects/*", *[Reply(500, b"SIGNEDSECRET")] * 9), b(c())),
    "store of odd headers": lambda c, f, b: (f.script("/objects/*", *[Reply(raw=odd_headers)] * 9), b(c())),
    "wrong bytes": lambda c, f, b: (f.script("/objects/*", *[Reply(200, b"no")] * 9), b(c())),
    "signed nonsense": lambda c, f, b: (redirected(f, "gopher://h/o"), b(c())),
    "malformed address": lambda c, f, b: (redirected(f, "http://127.0.0.1:70000/o", 9), b(c())),
}  # fmt: skip


@pytest.mark.parametrize("failure", FAILURES)
def test_no_secret_in_any_log_or_exception(failure, make_client, fake, hour, content, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    record, made = models.Batch.model_validate(fake.add(NAME, content)), []

    def client(**changes):
        made.append(make_client(**changes))
        return made[-1]

    with pytest.raises(errors.EnterpriseError) as caught:
        FAILURES[failure](client, fake, lambda c: c.hours.download(hour, record, tmp_path / "archive" / "x.tar.gz"))
    shown = [
        # without the frames of this file, whose source lines hold the passwords
        "".join(f for f in traceback.format_exception(caught.value) if "test_secrets.py" not in f.partition("\n")[0]),
        repr(caught.value),
        caplog.text,
        *(repr(vars(c)) for c in made),
        *(repr(c.service) for c in made),
    ]
    chained = caught.value
    while chained is not None:
        shown.append(f"{chained!r} {chained} {vars(chained)}")
        chained = chained.__cause__ or chained.__context__
    for text in shown:
        assert SECRET.search(text) is None, text
    assert "/v" in caplog.text  # the library's own log was on, and was looked at
    assert fake.api.requests or failure == "no connection"


def test_redaction_leaves_ordinary_words_alone():
    redactor = Redactor()
    redactor.learn("abc", None, "hunter-2", "hunter-2-secret")
    redactor.learn("204815", 'a "/éx', "\ud800" * 6)  # a confirmation code, and passwords
    for form in ["204815", 'a \\"/éx', r"a \"/\u00e9x", "a%20%22/%C3%A9x", "a%20%22%2F%C3%A9x", "a+%22%2F%C3%A9x"]:
        assert redactor.clean(f"The code {form} has expired.") == "The code [hidden] has expired."
    text = "abc {} enwiki_namespace_0.tar.gz 1.2.3 really? See https://h/p?{} and Bearer {}"
    told = without_any_query("GET /x?a=1 of eyJhbGciOiJub.eyJzdWIiOiIx.SflKxwRJSM")
    assert told == "GET /x?[hidden] of [hidden]"
    hidden = redactor.clean(text.format("hunter-2-secret", "Signature=1&x=2", "abc.def"))
    assert hidden == text.format(*["[hidden]"] * 3)
