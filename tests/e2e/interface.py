"""Dagster's UI as `wme ui` serves it, a sandbox as its service, each in its own processes, and a browser before it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import requests
from playwright.sync_api import expect, sync_playwright

from tests.e2e.conftest import PROJECTS, until
from tests.e2e.programs import ROOT, bare
from tests.local_cluster import free_port

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
WME = Path(sys.executable).with_name("wme")


@dataclass
class Mirror:
    """A sandbox and Dagster's server, each in its own processes, and the data folder between them."""

    data: Path
    service: str
    port: int
    log: Path
    environ: dict[str, str] = field(default_factory=dict, repr=False)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def ask(self, query, **variables):
        """The answer of Dagster's GraphQL."""
        return post(f"{self.url}/graphql", {"query": query, "variables": variables})["data"]

    def partitions(self, layer):
        """Numbers of partitions that are materialized and that failed."""
        node = self.ask(
            """query ($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) { ... on AssetNode {
                 partitionStats { numMaterialized numFailed } } } }""",
            key={"path": layer.split("/")},
        )["assetNodeOrError"]["partitionStats"]
        return node["numMaterialized"], node["numFailed"]

    def materializations(self, layer, run):
        """What a run told of a layer: the numbers of each materialization by partition; two of one would fail."""
        node = self.ask(
            """query ($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) { ... on AssetNode {
                 assetMaterializations(limit: 1000) { partition runId metadataEntries { label
                   ... on IntMetadataEntry { intValue } } } } } }""",
            key={"path": layer.split("/")},
        )["assetNodeOrError"]
        told = [made for made in node["assetMaterializations"] if made["runId"] == run]
        partitions = [made["partition"] for made in told]
        assert len(set(partitions)) == len(partitions)
        return {m["partition"]: {e["label"]: e.get("intValue") for e in m["metadataEntries"]} for m in told}

    def lines(self, hour):
        """Lines of the hour's archives, counted with nothing but the standard library."""
        count = 0
        for path in (self.data / "archive").rglob(f"date={hour:%Y-%m-%d}/hour={hour:%H}/*.tar.gz"):
            with tarfile.open(path) as tar:
                count += sum(file.read().count(b"\n") for file in map(tar.extractfile, tar) if file is not None)
        return count


@contextmanager
def chromium(*flags):
    """A browser; what is expected of its pages has two minutes, as a busy machine may need."""
    if CHROMIUM is None:
        pytest.skip("No chromium here; on Debian: apt-get install chromium.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, *flags])
        expect.set_options(timeout=120_000)
        yield browser
        browser.close()


def post(url, content):
    answer = requests.post(url, json=content, timeout=120)
    answer.raise_for_status()
    return answer.json()


@contextmanager
def process(words, environ, log, **options):
    """A process in a session of its own, and all its children, which end with the block at the latest."""
    with log.open("wb") as out:
        streams = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": out}
        started = subprocess.Popen(words, cwd=ROOT, env=environ, start_new_session=True, **streams, **options)
    try:
        yield started
    finally:
        for pid in left(started.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        started.wait()


@contextmanager
def serving(folder, **more):
    """A mirror with an empty data folder, as the script of an operator starts it: in the background."""
    state, service_port, realtime_port = folder / "sandbox", free_port(), free_port()
    mirror = Mirror(folder / "data", f"http://127.0.0.1:{service_port}", free_port(), folder / "dagster.log")
    serve = [sys.executable, "-m", "resources.sandbox", "serve", "--state", str(state), "--port", str(service_port)]
    serve += ["--projects", ",".join(PROJECTS), "--namespaces", "0", "--changes-per-hour", "12", "--body-bytes", "600"]
    serve += ["--realtime-port", str(realtime_port), "--prepare", "0"]
    with process(serve, bare(), folder / "sandbox.log"):
        log = folder / "sandbox.log"
        until(lambda: answered(f"{mirror.service}/sandbox/identity"), 120, "The sandbox answers", log, pause=0.2)
        account = json.loads((state / "account.json").read_text())
        mirror.environ |= bare() | {
            "WME_DATA": str(mirror.data), "WME_USERNAME": account["username"], "WME_PASSWORD": account["password"],
            "WME_PROJECTS": ",".join(PROJECTS), "WME_MIN_FREE_GB": "0",
            **{f"WME_{name}_URL": mirror.service for name in ("AUTH", "BASE")},
            "WME_REALTIME_URL": f"http://127.0.0.1:{realtime_port}", **more,
        }  # fmt: skip
        words = [str(WME), "ui", "--port", str(mirror.port)]
        # as a shell does for what a script starts with &
        ignoring = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)}
        with process(words, mirror.environ, mirror.log, **ignoring) as mirror.process:
            until(lambda: answered(f"{mirror.url}/server_info"), 240, "Dagster answers", mirror.log, pause=0.2)
            yield mirror


def left(session):
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            name, _, rest = stat.read_text().rpartition(") ")
            state, _parent, _group, its_session = rest.split()[:4]
            if int(its_session) == session and state != "Z":
                found.append(int(name.split()[0]))
    return found


def answered(url):
    with suppress(OSError):
        return requests.get(url, timeout=5).status_code == 200
