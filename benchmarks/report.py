"""Benchmark report with one row per measurement, printed as a text table or as JSON."""

from __future__ import annotations

import json
import platform
import shlex
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from benchmarks.harness import Cost

_LIBRARIES = ("pyarrow", "isal", "duckdb", "polars")
#: Threshold above which numbers are printed without decimals.
_WHOLE = 100


@dataclass(frozen=True)
class Row:
    """Cost of an operation or contender in one case. A case is an archive, a number of pages or a history length.

    `work` is the amount of work in the report's unit. Costs are compared per unit of work. After a failure, `error`
    replaces the cost.
    """

    case: str
    name: str
    cost: Cost | None
    work: float = 1.0
    error: str = ""


@dataclass
class Report:
    """Rows of one run. `bases` maps a row's case and name to the base row for comparison.

    `unit` is the unit of `work`, for example MB of NDJSON, or None if there is no unit.
    """

    title: str
    unit: str | None = None
    rows: list[Row] = field(default_factory=list)
    bases: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    notes: dict[str, float] = field(default_factory=dict)

    def add(
        self, case: str, name: str, cost: Cost | str, work: float = 1.0, base: tuple[str, str] | None = None
    ) -> None:
        """Add a measurement or the reason for its failure. `base` is the row for comparison."""
        row = Row(case, name, None, work, cost) if isinstance(cost, str) else Row(case, name, cost, work)
        self.rows.append(row)
        if base is not None:
            self.bases[case, name] = base

    def row(self, case: str, name: str) -> Row:
        """Return the row with this case and name."""
        return next(row for row in self.rows if (row.case, row.name) == (case, name))

    def ratios(self, row: Row) -> dict[str, float]:
        """Return wall time per unit, processor time per unit, and memory as multiples of the base row's values."""
        base = self.bases.get((row.case, row.name))
        if base is None or row.cost is None or (other := self.row(*base)).cost is None:
            return {}
        return {
            "seconds": row.cost.seconds / row.work / (other.cost.seconds / other.work),
            "cpu": row.cost.cpu_seconds / row.work / (other.cost.cpu_seconds / other.work),
            "peak": row.cost.peak_mib / other.cost.peak_mib,
        }

    def facts(self) -> dict[str, Any]:
        """Return the report as JSON-compatible values."""
        rows = []
        for row in self.rows:
            found: dict[str, Any] = {"case": row.case, "name": row.name, "work": row.work}
            if row.cost is None:
                rows.append(found | {"error": row.error})
                continue
            cost = row.cost
            rows.append(
                found
                | {"seconds": cost.seconds, "cpu_seconds": cost.cpu_seconds, "peak_mib": cost.peak_mib}
                | {"per_second": row.work / cost.seconds, "ratios": self.ratios(row), "facts": cost.facts}
            )
        return {"title": self.title, "unit": self.unit, "rows": rows, "notes": self.notes, "provenance": provenance()}

    def table(self) -> Table:
        """Return the report as a text table."""
        table = Table(title=self.title, caption="Columns marked x are multiples of the base row.")
        counts = list(dict.fromkeys(name for row in self.rows if row.cost for name in row.cost.facts))
        table.add_column("case")
        table.add_column("measured")
        rate = [f"{self.unit}/s"] if self.unit else []
        for name in ("s", "x", "CPU s", "x", "peak MiB", *rate, *counts):
            table.add_column(name, justify="right")
        for row in self.rows:
            if row.cost is None:
                table.add_row(row.case, row.name, row.error[:80])
                continue
            ratios = {name: f"{ratio:.2f}" for name, ratio in self.ratios(row).items()}
            table.add_row(
                *(row.case, row.name),
                *(f"{row.cost.seconds:.2f}", ratios.get("seconds", "")),
                *(f"{row.cost.cpu_seconds:.2f}", ratios.get("cpu", "")),
                f"{row.cost.peak_mib:,.0f}",
                *([_text(row.work / row.cost.seconds)] if rate else []),
                *(_text(row.cost.facts[name]) if name in row.cost.facts else "" for name in counts),
            )
        return table

    def show(self, *, as_json: bool) -> None:
        """Print the report."""
        if as_json:
            sys.stdout.write(json.dumps(self.facts()) + "\n")
            return
        console = Console(width=None if sys.stdout.isatty() else 140)
        console.print(self.table())
        for name, note in self.notes.items():
            console.print(f"{name}: {_text(note)}", highlight=False)
        console.print(provenance(), soft_wrap=True, highlight=False)


def provenance() -> str:
    """Return the run's time, machine, versions and command."""
    versions = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    command = shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]])
    when = datetime.now(UTC)
    return f"{when:%Y-%m-%d %H:%M} UTC, {_processor()}; Python {platform.python_version()}, {versions}; {command}"


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.exists() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


def _text(number: float) -> str:
    return f"{number:,.0f}" if number >= _WHOLE or number == int(number) else f"{number:.3g}"
