"""What Dagster and the start of a process cost, beside the same functions called one after the other.

Belongs here: what is run both ways, and measured. Does not belong here: what the functions cost by themselves (see `contenders`).
"""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets import layers
from assets.checks import hourly_checks
from assets.published import fill_coverage
from assets.steps.hourly_run import HourlyRun
from benchmarks.costs import median, of_process, timed
from pipelines.operations import run as runs
from pipelines.process import instance
from pipelines.settings import read
from pipelines.wiring import build_resources
from resources import sandbox
from resources.data_folder import facts_of
from resources.datasets import ARTICLE_CHANGES, last_complete_hour

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.costs import Cost
    from pipelines.settings import Settings

ROOT = Path(__file__).parents[1]
DAGSTER, CODE_LOCATION = "import dagster", "code location"
COMMANDS = (("--help",), ("status",), ("publish",), ("sql", "SELECT 1"))
#: Assets that do nothing, of the run from which the cost of a step is taken.
STEPS = 20
#: Mean size of both bodies of an event, near what real ones have.
_BODY_BYTES = 20_000


@dataclass
class Orchestration:
    """All costs by name, each the median of its rounds, and the ratios that are to stay small (of processor time)."""

    hours: int
    megabytes: float
    costs: dict[str, Cost] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)

    def facts(self) -> dict[str, Any]:
        """All figures, for JSON."""
        return asdict(self)


def measure(folder: Path, hours: int, megabytes: float, rounds: int, say: Callable[[str], None]) -> Orchestration:
    """Both ways over so many empty hours, and over so many with archives of so many megabytes of NDJSON."""
    found = Orchestration(hours, megabytes)
    _fixed(folder / "fixed", found, rounds, say)
    empty = _Service(folder / "empty", 1)
    for count in (hours, 1):
        _both_ways(empty, count, f"{count} empty", found, rounds, say)
    if megabytes:
        full = _Service(folder / "full", round(megabytes * 1e6 / _BODY_BYTES))
        _both_ways(full, hours, f"{hours} full", found, 1, say)
    # the first one was only used to warm the sandbox up
    _starts(empty.environ(2), found, rounds, say)
    return found


def _fixed(folder: Path, found: Orchestration, rounds: int, say: Callable[[str], None]) -> None:
    """A run, and a step of it, that do nothing."""
    with instance.opened(folder) as opened:
        for count in (1, STEPS):
            say(f"A run of {count} steps")
            defs = dg.Definitions(
                [_nothing(number) for number in range(count)],
                jobs=[dg.define_asset_job("nothing")],
                loggers={"quiet": runs.QUIET},
            )
            execute = partial(
                defs.resolve_job_def("nothing").execute_in_process,
                run_config={"loggers": {"quiet": {}}},
                instance=opened,
            )
            costs = [timed(execute) for _ in range(rounds)]
            found.costs[f"a run of {count} that do nothing"] = median(costs)


def _nothing(number: int) -> dg.AssetsDefinition:
    @dg.asset(name=f"nothing_{number}")
    def nothing() -> None:
        return None

    return nothing


class _Service:
    """A sandbox with so many changes an hour of one project, and mirrors of it."""

    def __init__(self, folder: Path, changes: int) -> None:
        self._folder = folder
        settings = sandbox.Settings(
            state=folder / "sandbox",
            projects=("enwiki",),
            namespaces=(0,),
            changes_per_hour=changes,
            body_bytes=_BODY_BYTES,
            entities=0,
        )
        self._endpoint = sandbox.attach(settings, idle_seconds=60)
        # the newest may not be published yet, and the sandbox's clock goes on
        self._last = last_complete_hour(datetime.now(UTC)) - timedelta(hours=2)
        self._count = 0

    def hours(self, count: int) -> list[datetime]:
        return [self._last - timedelta(hours=back) for back in reversed(range(count))]

    def environ(self, number: int) -> dict[str, str]:
        """The variables of the mirror of this number."""
        service = self._endpoint
        return {
            "WME_USERNAME": service.username,
            "WME_PASSWORD": service.password,
            "WME_AUTH_URL": service.url,
            "WME_BASE_URL": service.url,
            "WME_REALTIME_URL": service.realtime_url,
            "WME_PROJECTS": "enwiki",
            "WME_NAMESPACES": "0",
            "WME_DATA": str(self._folder / f"{number}"),
        }

    def warm(self, hours: Sequence[datetime]) -> None:
        """Have the sandbox make the archives, which it does when they are first listed."""
        with self.fresh().access.client() as client:
            for hour in hours:
                client.hours.listing(hour)

    def fresh(self) -> Settings:
        """Those of a mirror that is empty."""
        self._count += 1
        environ = self.environ(self._count)
        # Dagster reads it there, so that none of its pages can show it
        os.environ["WME_PASSWORD"] = environ["WME_PASSWORD"]
        return read(environ)


def _both_ways(
    service: _Service, count: int, name: str, found: Orchestration, rounds: int, say: Callable[[str], None]
) -> None:
    hours = service.hours(count)
    say(f"Hours: {name}")
    service.warm(hours)
    ours, plain = [], []
    for _ in range(rounds):
        ours.append(timed(lambda: _dagster(service.fresh(), hours)))
        plain.append(timed(lambda: _plain(service.fresh(), hours)))
    found.costs[f"{name}, Dagster"], found.costs[f"{name}, a loop"] = median(ours), median(plain)
    found.ratios[f"{name}: Dagster to a loop"] = median(ours).cpu_seconds / median(plain).cpu_seconds


def _dagster(settings: Settings, hours: Sequence[datetime]) -> None:
    """What `wme run` does, in this process."""
    report = runs.run(settings, hours, refresh_reference=False)
    if report.failures:
        raise RuntimeError("\n".join(report.failures))


def _plain(settings: Settings, hours: Sequence[datetime]) -> None:
    """The same functions, one after the other."""
    resources = build_resources(settings)
    enterprise, lake, warehouse, engine = (resources[name] for name in ("enterprise", "lake", "warehouse", "engine"))
    selected = {*layers.keys(ARTICLE_CHANGES)}
    with engine.converter(lake) as converter, enterprise.client() as client:
        run = HourlyRun(enterprise, lake, warehouse, converter, engine.engine(lambda *_: None))
        run.plan(hours, client)
        for hour in hours:
            for _ in run.ingest(hour, selected, client):
                pass
        keys = {check.spec.key for check in hourly_checks.hourly(ARTICLE_CHANGES)}
        for answer in hourly_checks.of_run(run, keys):
            if not answer.passed:
                raise RuntimeError(f"{answer.check_name} failed.")
    store = warehouse.warehouse
    fill_coverage(enterprise, store)
    store.apply_changes()
    store.apply_entity_changes()
    store.publish(facts_of(settings.data))
    # the asset does it behind a publication, when nobody waits for it any more
    store.merge_row_groups()


def _starts(mirror: dict[str, str], found: Orchestration, rounds: int, say: Callable[[str], None]) -> None:
    """Processes that start and have nothing to do, in a mirror that was filled."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("WME_", "DAGSTER_"))}
    environ |= mirror | {"PYTHON_DOTENV_DISABLED": "1", "DAGSTER_DISABLE_TELEMETRY": "1"}
    words = {
        DAGSTER: ["-c", "import dagster"],
        CODE_LOCATION: ["-c", "from pipelines.definitions import defs; defs()"],
        **{f"wme {' '.join(command)}": ["-m", "pipelines", *command] for command in COMMANDS},
    }
    taken: dict[str, list[Cost]] = {name: [] for name in words}
    for _ in range(rounds):
        # in turn, so that other work on the machine meets all of them alike
        for name, arguments in words.items():
            say(name)
            taken[name].append(of_process([sys.executable, *arguments], ROOT, environ))
    for name, costs in taken.items():
        found.costs[name] = median(costs)
        if name != DAGSTER:
            found.ratios[f"{name} to {DAGSTER}"] = found.costs[name].cpu_seconds / found.costs[DAGSTER].cpu_seconds
