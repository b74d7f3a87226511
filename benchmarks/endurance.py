"""The memory of `wme stream` over a long time, as a process of its own with its usual values, publications included.

Belongs here: running it and sampling. Does not belong here: the source that it reads.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure import cpu_seconds
from benchmarks.stream_source import render, serving
from resources.warehouse import Warehouse

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds between two samples, where it runs for so long: a publication, which is a process of its own, takes about one.
SAMPLE_SECONDS = 0.2
#: Parts of the time of which each has its most.
PARTS = 6
#: The usual value of `--publish`; a run that is too short for it publishes in each part.
PUBLISH_SECONDS = 60.0
_SAMPLE_MB = 60.0


@dataclass(frozen=True)
class Endurance:
    """What `wme stream` took; `shown`: events that analysts saw at the end.

    Memory is the most (MiB) in each sixth of the time.

    Attributes:
        resident_mib: The resident set of the process and of the publication under way, together; what both have of a file counts twice.
        anonymous_mib: What of it is backed by no file.
        own_mib: The resident set of the process alone.
    """

    minutes: float
    rate: float
    event_bytes: float
    events: int
    shown: int
    cpu_seconds: float
    resident_mib: tuple[float, ...]
    anonymous_mib: tuple[float, ...]
    own_mib: tuple[float, ...]

    def facts(self) -> dict[str, Any]:
        """All figures, for JSON."""
        return dataclasses.asdict(self)


def measure(folder: Path, minutes: float, rate: float, event_bytes: int, say: Callable[[str], None]) -> Endurance:
    """Keep so many events a second for so many minutes, with the usual values: published every minute."""
    say("Making the events")
    lines, mean = render(folder, event_bytes, min(_SAMPLE_MB, minutes * 60 * rate * event_bytes / 1e6))
    data = folder / "data"
    Warehouse(data).publish()
    samples: list[tuple[float, float, float]] = []
    before = cpu_seconds()
    with serving(lines, rate) as url, tempfile.TemporaryFile("w+") as told:
        addresses = dict.fromkeys(("WME_AUTH_URL", "WME_BASE_URL", "WME_REALTIME_URL"), url)
        environ = {name: value for name, value in os.environ.items() if not name.startswith("WME_")}
        environ |= addresses | {"WME_DATA": str(data), "WME_ANONYMOUS": "1", "PYTHON_DOTENV_DISABLED": "1"}
        environ |= {"WME_PROJECTS": "enwiki", "WME_NAMESPACES": "0"}
        seconds = minutes * 60
        command = [sys.executable, "-m", "pipelines", "stream", "--for", str(seconds)]
        if seconds < PUBLISH_SECONDS * PARTS:
            command += ["--publish", str(seconds / PARTS)]
        root = Path(__file__).resolve().parents[1]
        started = time.monotonic()
        with subprocess.Popen(command, env=environ, cwd=root, stdout=told, stderr=subprocess.STDOUT) as process:
            while process.poll() is None:
                if sample := _sample(process.pid):
                    samples.append(sample)
                    say(f"{(time.monotonic() - started) / 60:,.1f} of {minutes:g} minutes, {sample[0]:,.0f} MiB")
                time.sleep(min(SAMPLE_SECONDS, seconds / PARTS / 10))
        told.seek(0)
        output = told.read()
    counts = re.findall(r"^([\d,]+) events? kept in", output, re.MULTILINE)
    if process.returncode or not counts:
        raise RuntimeError(f"wme stream ended with {process.returncode}: {output[-2000:]}")
    [(shown,)] = Warehouse(data).sql("SELECT count(*) FROM article_changes").rows
    # by their number, and not by the clock: a busy machine takes none for a while, and no part is to be without
    ends = [len(samples) * part // PARTS for part in range(PARTS + 1)]
    each = [samples[begin:end] for begin, end in itertools.pairwise(ends)]
    return Endurance(
        *(minutes, rate, mean, int(counts[0].replace(",", "")), shown),
        cpu_seconds() - before,
        *(tuple(max((sample[place] for sample in part), default=0.0) for part in each) for place in range(3)),
    )


def _sample(process: int) -> tuple[float, float, float] | None:
    """The resident set of a process and of those that it started, what of it is anonymous, and its own (MiB); None: the process has ended."""
    own = _memory(process)
    if own is None:
        return None
    all_ = [own, *filter(None, map(_memory, _children(process)))]
    return sum(one[0] for one in all_), sum(one[1] for one in all_), own[0]


def _children(process: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found += map(int, (thread / "children").read_text().split())
    return found


def _memory(process: int) -> tuple[float, float] | None:
    try:
        text = Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    found = dict(re.findall(r"^(VmRSS|RssAnon):\s+(\d+) kB", text, re.MULTILINE))
    return (int(found["VmRSS"]) / 1024, int(found["RssAnon"]) / 1024) if len(found) == 2 else None
