"""Values that no honest service sends: each ends as a result or as one sentence, and is nowhere repeated raw."""

import datetime as dt
import json
import logging
import re
import time
import traceback
from pathlib import Path

import pytest

from resources.enterprise import errors, models
from resources.enterprise.account.token_store import TokenStore
from resources.enterprise.errors import Redactor
from resources.enterprise.http.answers import ServiceClock
from tests.unit.enterprise.fake_service import USERNAME
from tests.unit.enterprise.loopback import Reply, error_reply, json_reply

LIST = "/v2/batches/2026-11-01/05"
NAME = "enwiki_namespace_0"


@pytest.fixture
def record(fake, content):
    return fake.add(NAME, content)


def raw_json(text):
    return Reply(200, text.encode(), {"Content-Type": "application/json"})


#: A place in a record and its odd value as JSON.
ODD = Path(__file__).with_name("odd_records.txt").read_text().replace("LONG", "a" * 10_000).splitlines()


@pytest.mark.parametrize(("place", "value"), [line.split(" ", 1) for line in ODD])
def test_a_record_that_cannot_be_used_leaves_out_its_project_alone(client, fake, hour, record, place, value):
    """A list with this record and a good one is read without it, and knows its project; alone it is refused."""
    good = fake.add("frwiki_namespace_0", b"x")
    odd = json.dumps(record | {place: "ODD"}).replace('"ODD"', value)
    fake.script(LIST, raw_json(f"[{json.dumps(good)}, {odd}]"))
    listing = client.hours.listing(hour)
    assert [one.identifier for one in listing.records] == ["frwiki_namespace_0"]
    (record,) = listing.odd
    assert listing.left_out([("enwiki", 0), ("frwiki", 0), ("itwiki", 0)]) == {("enwiki", 0): str(record)}
    assert str(record).startswith(f"{'record 2' if place == 'identifier' else NAME}: {place}")
    assert listing.remark == f"1 record in the list {LIST} is not used ({record})."
    assert listing.remark.isprintable()
    assert len(listing.remark) < 400
    fake.script(f"{LIST}/{NAME}", raw_json(odd))
    with pytest.raises(errors.UnexpectedAnswer, match=place):
        client.hours.record(hour, NAME)


@pytest.mark.parametrize(
    "odd", [None, 5, "enwiki", [[]], {}, {"identifier": 5}, *({"namespace": {"identifier": one}} for one in (0, True))]
)
def test_a_record_that_does_not_say_what_it_is_of_may_be_of_any_project_not_named(client, fake, hour, record, odd):
    fake.script(LIST, json_reply([record, odd]))
    listing = client.hours.listing(hour)
    assert [one.identifier for one in listing] == [NAME]
    assert listing.left_out([("enwiki", 0), ("frwiki", 0)]).keys() == {("frwiki", 0)}
    assert "record 2: " in listing.remark


SHA = {"version": "0" * 32}
NEWER = {"date_modified": "2026-11-01T07:00:00Z"}


@pytest.mark.parametrize(
    ("changes", "versions", "left_out"),
    [
        ([{}, {}], ["own"], set()),  # the service repeats whole lists of structured contents
        ([{}, SHA | NEWER], ["0" * 32], set()),
        ([SHA | NEWER, {}], ["0" * 32], set()),
        ([{"date_modified": None}, SHA | NEWER, {"date_modified": "2026-11-01T06:59:59"}], ["0" * 32], set()),
        ([{}, {"is_part_of": {"identifier": "frwiki"}}], ["own"], {"enwiki", "frwiki"}),
        ([{"is_part_of": {"identifier": "frwiki"}}], [], {"enwiki", "frwiki"}),
        ([{"namespace": {"identifier": 14}}], [], {"enwiki"}),
        ([{"identifier": None, "namespace": {"identifier": 14}}], [], set()),  # no other namespace is affected
        ([{"is_part_of": {"identifier": "../../../tmp/x"}}], [], {"../../../tmp/x", "enwiki"}),
        ([{}, {"version": "7"}], ["own"], {"enwiki"}),
        ([{}, SHA | {"identifier": "x"}], ["own"], {"enwiki"}),
    ],
)
def test_records_that_contradict_one_another_are_left_out(client, fake, hour, record, changes, versions, left_out):
    fake.script(LIST, json_reply([record | change for change in changes]))
    listing = client.hours.listing(hour)
    assert [one.version.replace(record["version"], "own") for one in listing] == versions
    found = listing.left_out([(project, 0) for project in ("../../../tmp/x", "dewiki", "enwiki", "frwiki")])
    assert {project for project, _ in found} == left_out


def test_odd_records_are_one_line_in_the_log_without_what_they_say(client, fake, hour, record, caplog):
    token = client.account.access_token()
    fake.script(LIST, json_reply([record, *[{"identifier": token, "version": token}] * 5_000]))
    assert len(client.hours.listing(hour).odd) == 5_000
    (told,) = caplog.messages
    assert token not in told
    assert len(told) < 600
    assert re.match(rf"5,000 records in the list {LIST} are not used \(record 2: version: .*4,997 more", told)


def test_odd_entries_snapshots_and_chunks_are_left_out_and_nothing_else_has_another_form(client, fake, hour):
    fake.script(LIST, json_reply([{}, 5, None]))
    with pytest.raises(errors.UnexpectedAnswer, match=r"documented form.*record 1"):
        client.hours.listing(hour)
    fake.script("/v2/codes", json_reply([{"identifier": "wiki"}, {}, 7]))
    assert [one.identifier for one in client.lists.reference("codes")] == ["wiki"]
    fake.add_snapshot("enwiki_namespace_0", b"a", b"b")
    fake.add_snapshot("frwiki_namespace_0", b"c")
    fake.snapshots["enwiki_namespace_0"]["size"] = {"value": -1}
    listing = client.snapshots.listing()
    assert [one.identifier for one in listing] == ["frwiki_namespace_0"]
    assert listing.left_out([("enwiki", 0), ("frwiki", 0)]).keys() == {("enwiki", 0)}
    fake.chunks["enwiki_namespace_0_chunk_1"]["is_part_of"] = {"identifier": "frwiki"}
    assert [one.identifier for one in client.snapshots.chunks("enwiki_namespace_0")] == ["enwiki_namespace_0_chunk_0"]


SECRET = "TokenOfTheService-0001"
FORMS = ["\r\nX-Evil: 1", "\n", "\0", " x", "\u20ac", "\x1b[2J", "x" * 9000]
LIVES = ["1e999", "Infinity", "NaN", "0", "-5", "1e300", str(91 * 86_400)]


@pytest.mark.parametrize(
    ("which", "value"),
    [
        *(("access_token", json.dumps(value)) for value in ["", *(SECRET + rest for rest in FORMS)]),
        *(("refresh_token", json.dumps(value)) for value in ["", *(SECRET + rest for rest in FORMS)]),
        *(("expires_in", value) for value in LIVES),
    ],
)
def test_a_token_that_cannot_stand_in_a_header_or_live_is_refused_and_not_shown(client, fake, tmp_path, which, value):
    tokens = {"access_token": "a" * 20, "refresh_token": "b" * 20, "expires_in": 60, which: "VALUE"}
    fake.script("/v1/login", raw_json(json.dumps(tokens).replace('"VALUE"', value)))
    with pytest.raises(errors.UnexpectedAnswer, match=which) as caught:
        client.account.login()
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert not (tmp_path / "state" / "tokens.json").exists()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("access_token", "stored\r\nX-Evil: 1"), ("access_expires_at", "9999-12-31T23:59:59-14:00"),
        ("refresh_obtained_at", "9999-12-31T00:00:00+00:00"), ("access_obtained_at", "0001-01-01T00:00:00+00:00"),
        ("refresh_count", float("inf")), ("refresh_count", None), (None, ""), (None, "{"), (None, "[]"),
    ],
)  # fmt: skip
def test_a_token_file_that_is_damaged_is_ignored_with_a_warning(client, fake, tmp_path, caplog, field, value):
    client.account.login()
    path = tmp_path / "state" / "tokens.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}) if field else value)
    assert TokenStore(path, fake.url, USERNAME).read() is None
    assert f"The token file {path} is damaged and ignored. The next login creates a new file." in caplog.messages
    assert [how().logged_in for how in (client.account.status, client.account.login)] == [False, True]


@pytest.mark.parametrize(
    "location",
    [
        "http://[::1", "http://127.0.0.1:99999999/x", "http://user:PassInAddress@127.0.0.1/x", "gopher://127.0.0.1/",
        "javascript:alert(1)", "http://127.0.0.1/\x85", "http://\xe4\xe4/", "http://127.0.0.1:x/",
    ],
)  # fmt: skip
def test_an_address_that_is_none_is_refused(client, fake, hour, record, tmp_path, location):
    fake.script(f"{LIST}/{NAME}/download", *[Reply(307, b"", {"Location": location})] * 9)
    with pytest.raises(errors.UnexpectedAnswer, match="redirects to an invalid URL") as caught:
        client.hours.download(hour, models.Batch.model_validate(record), tmp_path / "a" / "x.tar.gz")
    assert "PassInAddress" not in "".join(traceback.format_exception(caught.value))
    assert fake.store.requests == []


NONSENSE = ["nan", "inf", "-1e999", "9" * 5000, "Fri, 31 Dec 99999 00:00:00 GMT", "Mon, 01 Jan 0001 00:00:00 +1400"]


@pytest.mark.parametrize("asked", [*NONSENSE, "86400", "Wed, 01 Jan 2126 00:00:00 GMT", "soon"])
def test_a_wait_of_a_day_or_of_nonsense_is_not_waited_for(client, fake, asked):
    fake.script("/v2/codes", *(json_reply({}, status, **{"Retry-After": asked}) for status in (429, 503)))
    assert len(client.lists.reference("codes")) == 1


@pytest.mark.parametrize("body", ["[" * 60_000, '{"message":' * 9_000, '{"message": ' + "9" * 5000 + "}"])
@pytest.mark.parametrize("status", [200, 400, 429, 500])
def test_a_body_that_is_nested_without_end_is_survived(client, fake, status, body):
    fake.script("/v2/codes", *[Reply(status, body.encode())] * 9)
    kinds = {200: errors.UnexpectedAnswer, 400: errors.InvalidRequest, 429: errors.RateLimited}
    with pytest.raises(kinds.get(status, errors.ServiceUnavailable), match="list the codes"):
        client.lists.reference("codes")


def test_counters_that_are_none_are_left_out(client, fake):
    fake.user |= {"x_limit": 5, "a\x1b_requests_count": 1, "b_requests_count": "many", "c_requests_count": 1e400}
    fake.user |= {"d_requests_count": 3, "d_limit": [], "groups": ["\x1b[31mred"], "username": "a\u202eb"}
    fake.user |= {"snapshot_requests_count": 3, "snapshot_limit": 30, "chunk_limit": 15, "apis": [{"path": "/v2/x"}]}
    user = client.account.user()
    assert set(user.quotas) == {"chunk", "d", "snapshot"}
    assert user.quotas["d"].limit is None
    found = [user.quotas[name] for name in ("chunk", "snapshot")]
    assert [(one.used, one.limit, one.left) for one in found] == [(0, 15, 15), (3, 30, 27)]
    assert (user.groups, user.username) == (("\\x1b[31mred",), "a\\u202eb")
    # each is judged by itself, and what is left of a limit is unknown without the number of what was used
    fake.user |= {"chunk_requests_count": -3, "d_limit": 7, "ondemand_limit": 10**30, "ondemand_requests_count": 4.0}
    known = {"d": models.Quota(3, 7), "ondemand": models.Quota(4, None), "snapshot": models.Quota(3, 30)}
    assert client.account.user().quotas == known


def test_every_message_is_printable_and_bounded_and_holds_no_query_of_an_address(client, fake):
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, errors.EnterpriseError)]
    for kind in kinds:
        error = kind("a\x1bb" + "c" * 9999)
        assert error.message == str(error)
        assert error.message.startswith("a\\x1bbc")
        assert len(error.message) == errors.LONGEST_MESSAGE
    error = errors.ServiceUnavailable("Could not reach https://store.example.org/a/b?X-Amz-Signature=0f0f&x=1. Yes.")
    assert error.message == "Could not reach https://store.example.org/a/b?[hidden] Yes."
    fake.script("/v1/login", json_reply({"challenge_name": f"\x1b[2JDo this{'!' * 60}", "session": "s" * 20}))
    with pytest.raises(errors.UnexpectedAnswer, match=r"challenge \\x1b\[2JDo this!{39}, which"):
        client.account.login()


@pytest.mark.parametrize("unit", ["a-", "aaaaaaaa.", "http://", "Bearer ", "http://a?", "a"])
def test_hiding_secrets_takes_as_long_as_the_text_is(unit):
    redactor = Redactor()
    redactor.learn("NeverShown1")

    def seconds(size):
        text, began = unit * (size // len(unit)), time.process_time()
        redactor.clean(text)
        return time.process_time() - began

    small = min(seconds(20_000) for _ in range(3))
    assert min(seconds(200_000) for _ in range(3)) < 60 * max(small, 0.002)


def test_a_secret_at_the_end_of_what_is_shown_is_not_cut_open(client, fake):
    client.account.login()
    token = client.account.access_token()
    for before in range(200, 320, 7):
        fake.script("/v2/codes", error_reply(400, "." * before + f" {token} " * 200))
        with pytest.raises(errors.InvalidRequest) as caught:
            client.lists.reference("codes")
        assert "ISSUEDSECRET" not in caught.value.message
        assert token[:12] not in caught.value.message
        assert len(caught.value.message) < 1000


@pytest.fixture
def skewed(fake, clock, monkeypatch):
    """The service's clock runs so far behind this machine's."""
    monkeypatch.setattr(ServiceClock, "_logged", set())

    def skew(**parts):
        ahead = dt.timedelta(**parts)
        fake.api.now = lambda: clock() - ahead

    return skew


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"days": 3}, "3 days ahead of"), ({"minutes": 6.5}, "7 minutes ahead of"), ({"hours": -1}, "1 hour behind"),
        ({"days": -400}, "400 days behind"),
    ],
)  # fmt: skip
def test_a_wrong_clock_is_said_once_and_one_a_little_off_is_not(make_client, fake, skewed, clock, caplog, parts, words):
    for minutes in (4, -4, 0):
        skewed(minutes=minutes)
        make_client().lists.reference("codes")
    old = (clock() - dt.timedelta(hours=2)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    for age in ("7200", "99999999"):
        fake.script("/v2/codes", json_reply([], Date=old, Age=age))
        make_client().lists.reference("codes")
    assert caplog.messages == []
    skewed(**parts)
    for _ in range(2):
        client = make_client()
        client.lists.reference("codes")
        assert client.lists.reference("codes").fetched_at == clock()
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    advice = "Hours and token lifetimes depend on the clock: correct it (time synchronization)."
    assert told == [f"This machine's clock is {words} the service's. {advice}"]
    skewed(days=9)  # by another time it is said again
    client.lists.reference("codes")
    assert "9 days ahead of the service's" in caplog.messages[-1]


def test_hours_and_their_retention_are_counted_by_the_services_clock(client, fake, skewed, clock, hour):
    skewed(days=3)
    clock.advance(days=3)
    with pytest.raises(errors.ClockError, match=r"2026-11-04 05:00 UTC has not begun.*3 days ahead of the service's"):
        client.hours.listing(hour + dt.timedelta(days=3))
    fake.script(LIST, error_reply(404, "NoSuchKey"))
    with pytest.raises(errors.NotPublishedYet, match="3 days ahead"):
        client.hours.listing(hour)
    skewed(days=-3)
    clock.advance(days=-3)
    fake.script(LIST, error_reply(404, "NoSuchKey"))
    with pytest.raises(errors.RetentionPassed, match="3 days behind"):
        client.hours.listing(hour)
    # the hour under way is not published yet whatever the clock
    clock.advance(minutes=40)
    skewed(minutes=40)
    with pytest.raises(errors.NotPublishedYet, match="40 minutes ahead"):
        client.hours.listing(hour + dt.timedelta(hours=1))
    skewed(minutes=0)  # put right
    with pytest.raises(errors.NotPublishedYet, match=r"^The service has not published"):
        client.hours.listing(hour + dt.timedelta(hours=1))


def test_a_token_got_under_a_clock_that_was_put_right_since_is_not_trusted(client, fake, clock):
    clock.advance(days=3)
    client.account.login()
    clock.advance(days=-3)
    client.lists.reference("codes")
    assert len(fake.api.seen("/v1/token-refresh")) == 1
    assert client.account.status().access_expires_at <= clock() + dt.timedelta(days=1)
    client.lists.reference("codes")
    assert len(fake.api.seen("/v1/token-refresh")) == 1
    # a clock that was put back a little costs nothing
    client.account.login()
    clock.advance(minutes=-4)
    client.lists.reference("codes")
    assert len(fake.api.seen("/v1/token-refresh")) == 1
