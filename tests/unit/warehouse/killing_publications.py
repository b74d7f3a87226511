"""Publishes in children that are killed at one step after the other; started by `test_publication_failures.py`.

This process never opens DuckDB itself, so that its children can be forked cheaply from a clean state. After each kill
another child checks what is published, and publishes.
"""

from __future__ import annotations

import os
import signal
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from resources import datasets
from resources.tables import HourState
from resources.warehouse import HourStatus, Warehouse, publisher
from tests.unit.warehouse.killing import ended

START = datetime(2026, 12, 1, tzinfo=UTC)


def kill(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


def killed_after(owner, name):
    whole = getattr(owner, name)

    def work(*words):
        whole(*words)
        kill()

    return owner, name, work


#: Per step: where, what, and what takes its place.
STEPS = {
    "amid the views": killed_after(publisher, "make_views"),
    "copied": killed_after(publisher, "copy_file"),
    "read-only": killed_after(Path, "chmod"),
    "in place": killed_after(publisher, "_put"),
}


def change(warehouse, number):
    warehouse.record_statuses(
        [HourStatus(START + timedelta(hours=number), "enwiki", 0, HourState.NOT_YET)], dataset=datasets.ARTICLE_CHANGES
    )


def publish_and_be_killed(data, number, owner, name, work):
    setattr(owner, name, work)
    warehouse = Warehouse(data)
    change(warehouse, number)
    warehouse.publish()


def check(data, number, step):
    """What is published is the state before or the new one, whole; another publication works."""
    warehouse = Warehouse(data)
    count = f"SELECT count(*) FROM hours WHERE batch_hour >= '{START}'"
    (found,) = warehouse.sql(count).rows[0]
    bodies = warehouse.sql("SELECT count(*), max(html) FROM article_bodies JOIN articles USING (article_id)").rows
    made = warehouse.publish()
    assert made.changed is (found == number)
    assert warehouse.sql(count).rows == [(number + 1,)]
    assert (
        warehouse.sql("SELECT count(*), max(html) FROM article_bodies JOIN articles USING (article_id)").rows == bodies
    )
    state = {number: "as before", number + 1: "anew"}[found]
    sys.stdout.write(f"{step}: published {state}\n")
    sys.stdout.flush()


def child(work, *words):
    """Run in a child; returns how it ended."""
    pid = os.fork()
    if pid == 0:
        ended(work, *words)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main(data):
    for number, (step, place) in enumerate(STEPS.items()):
        if (code := child(publish_and_be_killed, data, number, *place)) != -signal.SIGKILL:
            raise SystemExit(f"nothing was killed at the step: {step} ({code})")
        if child(check, data, number, step):
            raise SystemExit(f"failed after a kill at the step: {step}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
