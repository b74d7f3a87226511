"""Draw the pictures of the documentation: `make docs` runs it.

`architecture.svg` is drawn from the boxes and arrows below. `report.png` is a screenshot of the report of a mirror that
is filled from the sandbox for it; chromium takes it. Its PNG text `sections` holds the headings of the report, by which
a test notices that the report has changed.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from html import escape
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
WIDTH, HEIGHT = 940, 390
#: Hours that the mirror of the screenshot holds.
HOURS = 12

STYLE = """
text { font-family: system-ui, "Segoe UI", Helvetica, Arial, sans-serif; font-size: 13px; fill: #57606a }
.name { font-size: 14px; font-weight: 600; fill: #1f2328 }
.note { font-size: 12px }
.box { fill: #ffffff; stroke: #8c959f; stroke-width: 1.2 }
.ours { fill: #ddf4ff; stroke: #0969da; stroke-width: 1.2 }
.area { fill: none; stroke: #8c959f; stroke-dasharray: 5 4 }
.arrow { fill: none; stroke: #57606a; stroke-width: 1.6; marker-end: url(#head) }
.head { fill: #57606a }
@media (prefers-color-scheme: dark) {
  text { fill: #9198a1 }
  .name { fill: #f0f6fc }
  .box { fill: #151b23; stroke: #656c76 }
  .ours { fill: #0c2d6b; stroke: #4493f8 }
  .area { stroke: #656c76 }
  .arrow { stroke: #9198a1 }
  .head { fill: #9198a1 }
}
"""


class Box(NamedTuple):
    """A rectangle: the position and size in pixels, the name, and lines below the name."""

    x: int
    y: int
    width: int
    height: int
    name: str
    lines: tuple[str, ...] = ()
    style: str = "box"


class Arrow(NamedTuple):
    """A line through points, with a caption at a position."""

    points: tuple[tuple[int, int], ...]
    caption: str = ""
    at: tuple[int, int] = (0, 0)


BOXES = (
    Box(10, 90, 170, 120, "Content service", ("Wikimedia Enterprise,", "or the built-in", "sandbox")),
    Box(260, 52, 170, 92, "archive/", ("files as served,", "checksums verified"), "ours"),
    Box(500, 52, 170, 92, "lake/", ("Parquet: changes,", "snapshots, page text"), "ours"),
    Box(500, 182, 170, 92, "build.duckdb", ("current state and", "changes by hour"), "ours"),
    Box(260, 182, 170, 92, "live_changes", ("stream events,", "each exactly once"), "ours"),
    Box(750, 182, 170, 92, "warehouse.duckdb", ("published copy,", "replaced as a whole"), "ours"),
    Box(750, 52, 170, 62, "Analysts", ("DuckDB, SQL, Python",)),
)
ARROWS = (
    Arrow(((180, 120), (260, 98)), "download", (180, 88)),
    Arrow(((180, 180), (260, 222)), "stream", (184, 222)),
    Arrow(((430, 98), (500, 98)), "convert", (443, 90)),
    Arrow(((585, 144), (585, 182)), "load", (593, 168)),
    Arrow(((670, 228), (750, 228)), "publish", (689, 244)),
    Arrow(((835, 182), (835, 114)), "query", (843, 154)),
    Arrow(((670, 125), (710, 125), (710, 204), (750, 204)), "views", (716, 168)),
    Arrow(((345, 274), (345, 298), (835, 298), (835, 274)), "views of live data", (540, 293)),
)


def architecture() -> str:
    """Return the diagram of the architecture as SVG."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img">',
        "<title>From the content service through archive, lake and build file to the published DuckDB file</title>",
        f"<style>{STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">',
        '<path class="head" d="M0 0 8 4 0 8z"/></marker></defs>',
        '<rect class="area" x="240" y="10" width="690" height="304" rx="10"/>',
        '<text class="name" x="256" y="36">Data folder (WME_DATA)</text>',
        '<rect class="box" x="240" y="332" width="690" height="40" rx="8"/>',
        '<text class="name" x="256" y="357">Dagster</text>',
        '<text x="330" y="357">schedules, sensors, backfills and checks; the command wme runs the same steps</text>',
    ]
    for arrow in ARROWS:
        parts.append(f'<path class="arrow" d="M{" L".join(f"{x} {y}" for x, y in arrow.points)}"/>')
        parts.append(f'<text class="note" x="{arrow.at[0]}" y="{arrow.at[1]}">{escape(arrow.caption)}</text>')
    for box in BOXES:
        parts.append(
            f'<rect class="{box.style}" x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="8"/>'
        )
        parts.append(f'<text class="name" x="{box.x + 12}" y="{box.y + 26}">{escape(box.name)}</text>')
        for number, line in enumerate(box.lines):
            parts.append(f'<text x="{box.x + 12}" y="{box.y + 48 + 18 * number}">{escape(line)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def sections(page: str) -> str:
    """Return the headings of a report, which do not depend on its data, separated by semicolons."""
    return "; ".join(re.findall(r'<h2 id="card-\d+">([^<]*)', page))


def with_text(png: bytes, keyword: str, text: str) -> bytes:
    """Return a PNG with a text chunk after its header (PNG specification, section 11.3.3.2)."""
    data = b"tEXt" + keyword.encode("latin-1") + b"\0" + text.encode("latin-1")
    chunk = struct.pack(">I", len(data) - 4) + data + struct.pack(">I", zlib.crc32(data))
    after_header = 8 + 25
    return png[:after_header] + chunk + png[after_header:]


def screenshot(chromium: str) -> bytes:
    """Fill a mirror from the sandbox, write its report, and return the screenshot of its upper part."""
    with tempfile.TemporaryDirectory() as folder:
        wme = [sys.executable, "-m", "pipelines"]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("WME_")}
        environ |= {"WME_DATA": folder, "WME_SANDBOX": "1"}
        subprocess.run([*wme, "run", "--quiet", "--hours", str(HOURS)], env=environ, check=True, timeout=1800)
        subprocess.run([*wme, "report"], env=environ, check=True, timeout=600, stdout=subprocess.DEVNULL)
        page, picture = Path(folder, "report.html"), Path(folder, "report.png")
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1000,1000"]
        subprocess.run(
            [chromium, *options, f"--screenshot={picture}", page.as_uri()], check=True, timeout=300, capture_output=True
        )
        return with_text(picture.read_bytes(), "sections", sections(page.read_text()))


if __name__ == "__main__":
    (FOLDER / "architecture.svg").write_text(architecture())
    if (browser := shutil.which("chromium")) is None:
        sys.exit("architecture.svg is drawn. report.png is unchanged: it needs chromium, which is not on the PATH.")
    (FOLDER / "report.png").write_bytes(screenshot(browser))
