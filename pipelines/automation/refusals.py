"""Permanent failures are retried once their cause is gone.

The causes are a refused account, a name that the service does not have, and a used-up quota. Such a run would fail
alike each time, and a wrong password that is sent again and again locks the account. So a sensor checks the cause
before it requests such hours again, and waits longer after each refusal.
"""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import dagster as dg

from assets import names
from pipelines.automation.discovery import LATE, WAITS
from resources.enterprise.data_api import UNCOUNTED
from resources.enterprise.errors import NotPublishedYet, RetentionPassed
from resources.formatting import moment_text

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from resources.datasets import Dataset
    from resources.enterprise import EnterpriseClient
    from resources.lake import Layout

#: Definitions are loaded with the settings: what was refused before then may be mended.
LOADED_AT = datetime.now(UTC)


def hindrance(
    hours: Sequence[datetime],
    client: EnterpriseClient,
    layout: Layout,
    scope: Collection[tuple[str, int]],
    now: datetime,
    dataset: Dataset,
) -> str | None:
    """Return the reason why a run over hours (oldest first) would fail as the last one did; None: it need not.

    At most five requests.

    Raises:
        MirrorError: The account is refused, the service does not have a name, or does not answer.
    """
    certain = [hour for hour in hours if now - hour > LATE] or hours
    with suppress(NotPublishedYet, RetentionPassed):
        named = {(one.project_id, one.namespace_id) for one in client.hours.listing(certain[-1], dataset).records}
        absent = [place for place in scope if place not in named]
        names.check(client, layout, [project for project, _ in absent], [number for _, number in absent])
    quota = client.account.quotas().get(UNCOUNTED)
    if quota is None or not quota.exhausted:
        return None
    return (
        f"The account has used {quota.used:,} of its {quota.limit:,} {UNCOUNTED} units. No hour is asked for until the "
        "vendor "
        "has reset the counters (monthly) or allows more."
    )


def until(cursor: str | None, now: datetime) -> datetime | None:
    """Until when the service is left alone, because it refused the account; None: it may be asked."""
    refused_at, count = _read(cursor)
    if refused_at is None or refused_at < LOADED_AT:
        return None
    again = refused_at + WAITS[min(count, len(WAITS)) - 1]
    return again if now < again else None


def noted(cursor: str | None, now: datetime) -> str:
    """The cursor of a sensor that the service has refused now."""
    refused_at, count = _read(cursor)
    known = count if refused_at is not None and refused_at >= LOADED_AT else 0
    return json.dumps([now.isoformat(), known + 1])


def _read(cursor: str | None) -> tuple[datetime | None, int]:
    if not cursor:
        return None, 0
    at, count = json.loads(cursor)
    return datetime.fromisoformat(at), count


def waiting(again: datetime) -> str:
    """That the service is left alone until then, in a sentence."""
    return (
        f"The service refused the account, and refused passwords lock it: it is asked again at {moment_text(again)} "
        "UTC, or as soon as the "
        "definitions are loaded again."
    )


def refusal_of(instance: dg.DagsterInstance, run: dg.DagsterRun, ended_at: datetime) -> str | None:
    """Return the sentence of a failed run whose account was refused.

    None: it failed otherwise, or the definitions were loaded since.
    """
    if ended_at < LOADED_AT:
        return None
    for record in instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE).records:
        event = record.event_log_entry.dagster_event
        told = None if event is None else event.step_failure_data.user_failure_data
        said = {} if told is None else {name: value.value for name, value in told.metadata.items()}
        if told is not None and (said.get("unavailable"), said.get("retryable")) == ("service", False):
            return told.description
    return None
