"""The pace of requests: turns are apart as far as they should be, whatever the speed of the machine."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

from resources.enterprise.data_api import Pace


def gaps(pace, count=5):
    turns = sorted(pace.turn() for _ in range(count))
    return [after - before for before, after in itertools.pairwise(turns)]


def test_without_a_known_rate_nobody_waits(monkeypatch):
    monkeypatch.setattr("resources.enterprise.data_api.time.sleep", Mock(side_effect=AssertionError))
    assert len(gaps(Pace(None), 1000)) == 999


def test_a_known_rate_is_kept_by_all_threads_together():
    pace, turns, together = Pace(1000.0), [], threading.Barrier(4)

    def work(_):
        together.wait()
        return [pace.turn() for _ in range(20)]

    with ThreadPoolExecutor(4) as pool:
        turns = sorted(itertools.chain(*pool.map(work, range(4))))
    assert all(after - before >= 0.001 for before, after in itertools.pairwise(turns))


def test_a_refusal_slows_once_for_all_that_were_under_way_and_answers_speed_up_again():
    pace = Pace(None)
    early = [pace.turn() for _ in range(8)]
    for began in early:
        pace.refused(began)
    assert pace._rate == 40
    pace.refused(pace.turn())
    assert pace._rate == 20
    for _ in range(40):
        pace.admitted()
    assert pace._rate == 60
    for _ in range(400):
        pace.admitted()
    assert min(gaps(pace)) >= 0
    assert pace._rate == float("inf")


def test_however_often_it_is_refused_a_request_a_second_goes_out_and_a_known_rate_is_never_exceeded():
    pace = Pace(None)
    for moment in range(50):
        pace.refused(float("inf") if moment else 0.0)
    assert pace._rate == 1.0
    slow = Pace(0.5)
    slow.refused(float("inf"))
    assert slow._rate < 0.5
    for _ in range(10):
        slow.admitted()
    assert slow._rate < 0.5
