"""Large files, whose ranges are fetched in parallel: one signed URL, resumed, joined, and never mixed up."""

import os
import shutil
import signal
import threading
import time

import pytest

from resources.enterprise import Limits, RetryPolicy, errors, models
from tests.unit.enterprise.loopback import Reply
from tests.unit.enterprise.test_downloads import NAME, names, only_landed, ranges_asked, resolves, target
from tests.unit.enterprise.test_kill import killed

__all__ = ["target"]  # a fixture

SIZE, QUARTER = 400_000, 100_000
LIMITS = {"ranged_bytes": 300_000, "range_bytes": 20_000}


@pytest.fixture
def split(make_client):
    return make_client(limits=Limits(**LIMITS))


def lay(target, **parts):
    target.parent.mkdir(parents=True, exist_ok=True)
    for start, content in parts.items():
        (target.parent / f"{target.name}.part{start.replace('_', '.')}").write_bytes(content)


def bytes_asked(requests):
    ends = [request.headers["range"].removeprefix("bytes=").split("-") for request in requests]
    return sum(int(last or SIZE - 1) + 1 - int(first) for first, last in ends)


def test_the_ranges_of_a_large_file_are_all_open_at_once(split, fake, batch, target, hour, content):
    together = threading.Barrier(3, timeout=120)  # breaks, and fails the test, unless three requests wait here
    seen = []
    fake.script("/objects/*", None, *[lambda _: together.wait() and None] * 3)
    done = split.hours.download(hour, batch, target, seen.append)
    assert target.read_bytes() == content
    assert (done.unit_count, resolves(fake), done.resumed_bytes) == (1, 1, 0)
    asked = [one.split("=")[1] for one in sorted(ranges_asked(fake))]
    assert asked == ["0-99999", "100000-199999", "200000-299999", "300000-"]
    assert [r.headers.get("if-range") is None for r in fake.store.requests] == [True, False, False, False]
    assert len({r.query["X-Amz-Signature"] for r in fake.store.requests}) == 1
    assert (seen[0], sum(seen)) == (0, SIZE)
    only_landed(target)


@pytest.mark.parametrize("size", [0.3, 0.02, 0.35, 2])
def test_the_size_in_the_record_need_not_be_exact(make_client, fake, target, hour, content, size):
    record = models.Batch.model_validate(fake.add(NAME, content, size=int(SIZE * size) or None))
    limits = Limits(ranged_bytes=5_000, range_bytes=1_000)
    make_client(limits=limits).hours.download(hour, record, target)
    assert target.read_bytes() == content
    only_landed(target)


@pytest.mark.parametrize("honest", [-1, 0, 1, 2, 3])
def test_a_store_that_ignores_ranges_sends_the_complete_object(split, fake, batch, target, hour, content, honest):
    """At once, or after some ranges; and nothing stays of a longer file that an earlier run left."""
    if honest < 0:
        lay(target, **{"": content + b"?"})
    fake.script("/objects/*", *[fake.object] * honest)
    fake.script("/objects/*", *[lambda request: Reply(200, content)] * 5)
    done = split.hours.download(hour, batch, target)
    assert target.read_bytes() == content
    assert (done.unit_count, len(fake.api.seen("*/objects/*"))) == (1, 0)
    assert (len(fake.store.requests) == 1) is (honest <= 0)
    only_landed(target)


def test_a_url_that_several_ranges_find_refused_is_requested_once(split, fake, batch, target, hour, content):
    together = threading.Barrier(3, timeout=120)

    def expired(request):
        fake.signatures.clear()
        together.wait()  # all three have sent the same URL
        return Reply(403)

    fake.script("/objects/*", fake.object, expired, expired, expired)
    done = split.hours.download(hour, batch, target)
    assert (done.unit_count, target.read_bytes()) == (2, content)


def test_a_range_that_hangs_does_not_hold_up_the_failure_of_another(make_client, fake, batch, target, hour):
    client = make_client(retry=RetryPolicy(retries=0, read_timeout=100), limits=Limits(**LIMITS))
    stall, hangs = threading.Event(), threading.Event()
    fake.cut(10, stall=stall)
    fake.script("/objects/*", *[lambda _: hangs.wait(120) and Reply(503)] * 3)
    with pytest.raises(errors.ServiceUnavailable, match=r" 10 downloaded bytes are kept.*status 503"):
        # ten bytes arrive, and no more will
        client.hours.download(hour, batch, target, lambda count: count == 10 and hangs.set())
    stall.set()
    assert fake.store.stalls_sat_out == 0
    assert names(target) == [target.name + ".part"]
    assert (target.parent / (target.name + ".part")).stat().st_size == 10


def test_a_range_that_waits_is_ended_by_the_failure_of_another(make_client, fake, batch, target, hour):
    waits, waited = threading.Event(), []

    class Patient(RetryPolicy):
        def wait(self, attempt, asked=None):
            waited.append(attempt)
            waits.set()
            return 10.0

    stall, began = threading.Event(), time.monotonic()
    client = make_client(retry=Patient(read_timeout=20), limits=Limits(**LIMITS))
    lay(target, _300000=b"of a later range")
    fake.script("/objects/*", None, Reply(503), *[lambda _: waits.wait(120) and Reply(404)] * 2)
    fake.cut(10, stall=stall)
    with pytest.raises(errors.NotFound):
        client.hours.download(hour, batch, target)
    stall.set()
    # the pause is cut short, and so is the next answer
    assert time.monotonic() - began < 10
    assert waited == [1]
    assert names(target) == []  # no range is left, as it can never be completed


@pytest.mark.parametrize(
    ("parts", "resumed"),
    [
        ({"": (0, 50), "_100": (100, 130), "_300": (300, 400)}, 180),
        ({"": (0, 120), "_100": (100, 130)}, 130),  # killed while the parts were joined
        ({"": (0, 130), "_100": (100, 130)}, 130),
        ({"": (0, 50), "_100": (100, 230), "_200": (200, 210), "_220": (220, 260)}, None),  # overlap
        ({"_100": (100, 400)}, 300),
        ({"": (0, 400), "_399": (399, 400)}, 400),
        ({"": (0, 10), "_300": (200, 400)}, 0),  # wrong bytes, and too many of them
        ({"": (0, 10), "_999": (0, 10)}, None),  # after the object's end
    ],
)
def test_odd_leftovers_end_in_the_right_file(split, fake, batch, target, hour, content, parts, resumed):
    lay(target, **{f"_{at[1:]}000" if at else "": content[a * 1000 : b * 1000] for at, (a, b) in parts.items()})
    (target.parent / (target.name + ".part.5x")).write_text("not ours")
    done = split.hours.download(hour, batch, target)
    assert target.read_bytes() == content
    assert names(target) == [target.name, target.name + ".json", target.name + ".part.5x"]
    if resumed is not None:
        assert done.resumed_bytes == resumed * 1000
        assert resumed == 0 or bytes_asked(fake.store.requests) == SIZE - resumed * 1000


def test_parts_are_joined_only_where_there_is_room(split, batch, target, hour, monkeypatch):
    usage, free = shutil.disk_usage("/"), iter([SIZE * 2, SIZE, QUARTER - 1])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=next(free, SIZE)))
    with pytest.raises(errors.DiskFull, match="100,000 more bytes are needed, but only 99,999 are free"):
        split.hours.download(hour, batch, target)
    assert split.hours.download(hour, batch, target).resumed_bytes == SIZE


def test_a_process_killed_while_the_parts_are_joined_is_made_good(split, fake, target, hour, content, batch):
    """Killed before each deletion of a joined part, and each time continued until the next."""
    folder = target.parent / "0" / "archive"
    for turn, kept in ((1, 3), (1, 3), (2, 2)):
        assert killed(fake, target.parent, f"unlink:{turn}", **LIMITS) == [str(-signal.SIGKILL)]
        assert len([*folder.glob("*.part.*")]) == kept
    split.hours.download(hour, batch, folder / f"{NAME}.tar.gz")
    assert bytes_asked(fake.store.requests) == SIZE
    assert (folder / f"{NAME}.tar.gz").read_bytes() == content
    only_landed(folder / f"{NAME}.tar.gz")


@pytest.mark.parametrize(
    ("limits", "asked"),
    [({"keep_free_bytes": 1000}, [None]), ({"range_bytes": 150_000}, ["bytes=0-199999", "bytes=200000-"])],
)
def test_ranges_are_not_small_and_have_room(make_client, fake, batch, target, hour, monkeypatch, limits, asked):
    usage = shutil.disk_usage(target.parent.parent.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=SIZE + QUARTER + 999))
    write = os.pwrite  # takes part of it
    monkeypatch.setattr(os, "pwrite", lambda file, data, place: write(file, data[:999], place))
    assert make_client(limits=Limits(**LIMITS | limits)).hours.download(hour, batch, target).fetched
    assert ranges_asked(fake) == asked
