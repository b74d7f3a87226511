"""The engine keeps order, isolates failures, bounds parallel work; the line reporter says what it should."""

import threading

import pytest

from resources.engine import Engine, line_reporter
from resources.engine.mapping import increments


def test_outcomes_keep_the_order_and_a_failure_stays_alone():
    def halve(number: int) -> float:
        return 10 / number

    outcomes = Engine(workers=3).map(halve, [5, 0, 2])
    assert [outcome.result for outcome in outcomes] == [2.0, None, 5.0]
    assert (type(outcomes[1].error), outcomes[0].unwrap()) == (ZeroDivisionError, 2.0)
    with pytest.raises(ZeroDivisionError):
        outcomes[1].unwrap()


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_that_would_meet_all_ends_the_rest(workers):
    tried, ended = [], threading.Event()

    def fail(number: int) -> None:
        tried.append(number)
        assert number <= 7 or ended.wait(120)  # who is at another one meanwhile does not run ahead
        raise KeyError(number) if number else ValueError

    def ends(error: Exception) -> bool:
        if error.args == (7,):
            ended.set()
        return error.args == (7,)

    outcomes = Engine(workers=workers).map(fail, range(50), ends=ends)
    # the other worker may have been about to begin an item
    assert {7} <= set(tried) <= set(range(8 + workers))
    assert 8 - (workers - 1) <= len(tried) == len(set(tried))
    assert all(outcomes[number].error.args == (7,) for number in range(50) if number not in tried)


@pytest.mark.parametrize(("own", "more"), [(2, {}), (1, {"workers": 2})])
def test_items_run_side_by_side_up_to_the_bound_of_the_call_or_of_the_engine(own, more):
    barrier = threading.Barrier(2, timeout=120)  # breaks unless two items are under way at once
    under_way, most, lock = 0, 0, threading.Lock()

    def work(_item: int) -> None:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        barrier.wait()
        with lock:
            under_way -= 1

    outcomes = Engine(workers=own).map(work, range(6), **more)
    assert [outcome.error for outcome in outcomes] == [None] * 6
    assert most <= 2


def test_one_worker_runs_in_the_calling_thread():
    for engine, more in ((Engine(workers=3), {"workers": 1}), (Engine(workers=1), {})):
        outcomes = engine.map(lambda _item: threading.current_thread(), range(3), **more)
        assert {outcome.result for outcome in outcomes} == {threading.current_thread()}


def test_lines_are_told_at_the_start_now_and_then_and_at_the_end():
    lines: list[str] = []
    moments = iter([0.0, 1.0, 6.0, 7.0, 7.0])
    with line_reporter(lines.append, seconds=5, clock=lambda: next(moments))("download", 4_000_000, "B") as advance:
        advance(1_000_000)  # one second after the start: too soon for a line
        advance(1_000_000)
        advance(0)  # too soon after a line
    assert lines == ["download: 4.0 MB", "download: 50%, 2.0 MB of 4.0 MB", "download: 2.0 MB in 7.0 s"]


def test_an_empty_task_ends_without_dividing_by_zero_and_what_starts_over_is_not_counted_twice():
    lines: list[str] = []
    with line_reporter(lines.append, seconds=0)("nothing", 0, "file") as advance:
        advance(0)
    assert lines[1].startswith("nothing: 100%")
    progress = increments((amounts := []).append)
    for done in (2, 1, 3):
        progress(done, None)
    assert amounts == [2, 1]
