"""`wme ui` as a script starts it: attacks of other websites on it, and its end.

The attacks come from a browser's pages, and in forms that browsers do not send. None starts anything, and nothing leads
the password to the attacker. The end leaves nothing.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import dagster as dg
import pytest
from playwright.sync_api import expect, sync_playwright

from assets.describe import failed_hours, markdown, sentence
from assets.layers import EARLIEST
from pipelines.process.interrupts import SENTENCE
from pipelines.process.processes import opened
from resources.formatting import markdown_text
from tests.e2e.conftest import PATIENCE_SECONDS, ROOT
from tests.e2e.interface import CHROMIUM, FLAGS, WME, Mirror, left, until
from tests.local_cluster import free_port

SELECTOR = 'repositoryLocationName: "enterprise-content-mirror", repositoryName: "__repository__"'
LAUNCH = (
    "mutation { launchRun(executionParams: {selector: {%s}, runConfigData: %s}) { __typename "
    "... on LaunchRunSuccess { run { runId } } ... on PythonError { message } ... on RunConfigValidationInvalid "
    "{ errors { message } } } }"
)

pytestmark = pytest.mark.timeout(600)


@dataclass
class Listener:
    """A server on loopback that records what it is asked, and answers with a page."""

    port: int
    page: str = ""
    seen: list[tuple[str, str, bytes]] = field(default_factory=list)


@contextmanager
def listening():
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            listener.seen.append((self.command, self.path, body))
            answer = listener.page.encode()
            self.send_response(200 if self.command == "GET" else 503)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_POST = do_GET  # noqa: N815  the library's name

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener = Listener(server.server_port)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield listener
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Ui:
    """The UI, by GraphQL, and another website."""

    served: Mirror
    evil: Listener

    def __post_init__(self):
        self.url, self.port, self.ask = self.served.url, self.served.port, self.served.ask

    def mutation(self, config=None):
        """The launch of a job that logs in, at the address of the other website."""
        stolen = (
            config or f'{{resources: {{enterprise: {{config: {{auth_url: "http://127.0.0.1:{self.evil.port}"}}}}}}}}'
        )
        return LAUNCH % (f'{SELECTOR}, jobName: "reference"', json.dumps(stolen))  # which nobody else launches

    def untouched(self):
        """Nothing was started or recorded, and nobody got the password."""
        runs = self.ask('{ runsOrError(filter: {pipelineName: "reference"}) { ... on Runs { results { runId } } } }')
        assert runs["runsOrError"]["results"] == []
        assert not [path for method, path, _ in self.evil.seen if method == "POST"]
        keys = self.ask("{ assetsOrError { ... on AssetConnection { nodes { key { path } } } } }")["assetsOrError"][
            "nodes"
        ]
        assert ["forged"] not in [node["key"]["path"] for node in keys]

    def run(self, job, status):
        """A run of a job that is launched, once it has a status."""
        launched = self.ask(LAUNCH % (f'{SELECTOR}, jobName: "{job}"', "{}"))
        identifier = launched["launchRun"]["run"]["runId"]

        def look():
            found = self.ask(f'{{ runOrError(runId: "{identifier}") {{ ... on Run {{ status tags {{ key }} }} }} }}')[
                "runOrError"
            ]
            return found if found["status"] == status else None

        return until(look, PATIENCE_SECONDS, f"The run is {status}", self.served.log)


@pytest.fixture(scope="module")
def ui(served):
    with listening() as evil:
        yield Ui(served, evil)


def test_forms_that_no_browser_sends_start_nothing(ui):
    query = urllib.parse.quote(ui.mutation())
    body = json.dumps({"query": ui.mutation()})
    json_type = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    own = f"Host: 127.0.0.1:{ui.port}\r\n"
    for request, statuses in (
        (f"GET /graphql?query={query} HTTP/1.1\r\n{own}", {405}),
        (f"HEAD /graphql?query={query} HTTP/1.1\r\n{own}", {405}),
        (f"GET /%67raphql?query={query} HTTP/1.1\r\n{own}", {405}),
        (f"GET http://127.0.0.1/graphql?query={query} HTTP/1.1\r\n{own}", {405}),
        (f"GET /graphql?query={query} HTTP/1.1\r\n{own}X-HTTP-Method-Override: POST\r\n{json_type}", {405}),
        (f"POST /graphql?query={query} HTTP/1.1\r\n{own}Content-Length: 0\r\n", {415}),
        (f"POST /graphql HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: 127.0.0.1\r\n{json_type}", {403}),
        (f"POST /graphql HTTP/1.1\r\n{own}Host: evil.example\r\n{json_type}", {400}),
        (f"POST /graphql HTTP/1.1\r\n{json_type}", {400, 403}),
        (f"POST /graphql HTTP/1.0\r\n{json_type}", {403}),
        (f"POST /graphql HTTP/1.1\r\n{own}Origin: null\r\n{json_type}", {403}),
        (f"POST /graphql HTTP/1.1\r\n{own}Origin: {ui.url}\r\nOrigin: http://evil.example\r\n{json_type}", {400}),
        (f"POST /graphql HTTP/1.1\r\n{own}Origin: http://evil.example\r\n{json_type}", {403}),
        (f"POST /report_asset_materialization/forged HTTP/1.1\r\n{own}Content-Length: 0\r\n", {415}),
    ):  # fmt: skip
        with socket.create_connection(("127.0.0.1", ui.port), timeout=60) as connection:
            connection.sendall(f"{request}Connection: close\r\n\r\n{body if json_type in request else ''}".encode())
            status = int(connection.makefile("rb").readline().split()[1])
        assert status in statuses, request
    # a browser that opens the address is given Dagster's playground, which runs nothing
    opening = urllib.request.Request(f"{ui.url}/graphql?query={query}", headers={"Accept": "text/html"})
    with urllib.request.urlopen(opening, timeout=60) as answer:
        assert b"<!doctype html" in answer.read(2000)
    # the public name, which the settings have, is answered
    public = urllib.request.Request(f"{ui.url}/server_info", headers={"Host": "mirror.example.org"})
    with urllib.request.urlopen(public, timeout=60) as answer:
        assert answer.status == 200
    ui.untouched()


def test_a_run_of_an_allowed_program_sets_no_address_and_reads_no_variable(ui):
    for config, said in (
        ("{auth_url: 'http://127.0.0.1:9'}", 'unexpected config entry "auth_url"'),
        ("{base_url: x, data: /tmp}", "unexpected config entries \"['base_url', 'data']\""),
        ("{contact: {env: HOME}}", 'unexpected config entry "contact"'),
        ("{password: {env: WME_PASSWORD}}", 'unexpected config entry "password"'),
        ("{lookups_per_day: {env: WME_PASSWORD}}", "is not valid for expected type"),
    ):
        launched = ui.ask(ui.mutation(f"{{resources: {{enterprise: {{config: {config}}}}}}}"))["launchRun"]
        assert launched["__typename"] == "RunConfigValidationInvalid"
        (error,) = launched["errors"]
        assert said in error["message"]
        assert ui.served.password not in error["message"]
    ui.untouched()


@pytest.mark.skipif(CHROMIUM is None, reason="No chromium here; on Debian: apt-get install chromium.")
def test_pages_of_other_websites_start_nothing_and_the_uis_own_page_works(ui):
    attacks = Path(__file__).with_name("attacks.html").read_text()
    ui.evil.page = attacks.replace("UI,", f"{json.dumps(ui.url)},", 1).replace(
        "MUTATION,", f"{json.dumps(ui.mutation())},", 1
    )
    names = f"MAP rebound.example 127.0.0.1, MAP mirror.example.org:80 127.0.0.1:{ui.port}"
    flags = [*FLAGS, f"--host-resolver-rules={names}"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        page = browser.new_page(viewport={"width": 1500, "height": 2000})
        page.set_default_timeout(120_000)
        statuses = {}

        def note(response):
            if response.url.startswith(ui.url):
                statuses.setdefault(f"{response.request.method} {response.request.resource_type}", set()).add(
                    response.status
                )

        page.on("response", note)
        # another port of the same name, and another site
        for host in ("127.0.0.1", "localhost"):
            page.goto(f"http://{host}:{ui.evil.port}/")
            page.wait_for_function("document.title === 'done'")
            found = page.evaluate("found")
            assert found["socket"] == "error"
            assert found["preflight"] == found["put"] == "TypeError"
        assert set().union(*statuses.values()) <= {403, 405, 415}, statuses
        # a link may open the UI, and Dagster's playground, which runs nothing by itself
        with page.expect_navigation(url=f"{ui.url}/graphql**") as navigation:
            page.evaluate("void (location.href = query)")
        assert navigation.value.status == 200
        # a name of theirs that leads to this machine
        answer = page.goto(f"http://rebound.example:{ui.port}/")
        assert (answer.status, "WME_UI_HOSTS" in answer.text()) == (403, True)
        _no_frame_shows_it(ui, page)
        ui.untouched()

        expect.set_options(timeout=120_000)
        page.goto(f"{ui.url}/assets")
        expect(page.get_by_text("article_changes").first).to_be_visible()
        _names_in_markdown_are_text(ui, page)
        browser.close()


def _no_frame_shows_it(ui, page):
    """The public name over plain http, to which browsers send no Sec-Fetch-Dest.

    Whoever frames the UI could have it clicked.
    """
    public = "http://mirror.example.org/assets"
    page.route("**/*.js", lambda route: route.abort())  # not about what the page shows
    answer = page.goto(public)
    assert (answer.status, "sec-fetch-dest" in answer.request.all_headers()) == (200, False)
    ui.evil.page = f'<!doctype html><title>game</title><iframe src="{public}"></iframe>'
    page.goto(f"http://127.0.0.1:{ui.evil.port}/")
    [frame] = page.frames[1:]
    frame.wait_for_url(lambda url: url not in {"", "about:blank"}, wait_until="commit")
    assert frame.url == "chrome-error://chromewebdata/"
    page.unroute("**/*.js")


NAME = (
    "[free](https://evil.example/a) ![](https://evil.example/b.png) <img src=https://evil.example/c> "
    "https://evil.example/d www.evil.example"
)


def _names_in_markdown_are_text(ui, page):
    told = failed_hours({EARLIEST: ConnectionError(NAME)}, 2)
    with opened(ui.served.data / "dagster") as instance:
        instance.report_runless_asset_event(
            dg.AssetMaterialization(
                "names",
                # the UI reads it as Markdown, too
                description=markdown_text(sentence(ConnectionError(NAME))),
                metadata={
                    "names": markdown([{"name": NAME, "end": "the end"}], ("name", "end")),
                    "remarks": NAME,
                    **told.metadata,
                },
            )
        )
    page.goto(f"{ui.url}/assets/names?view=events")
    expect(page.get_by_text("the end", exact=True)).to_be_visible()
    # the description, the table, the text and the list
    expect(page.get_by_text("![](https://evil.example/b.png)", exact=False)).to_have_count(4)
    assert (
        page.evaluate(
            "[...document.querySelectorAll('a, img')].map(e => e.href || e.src).filter(e => e.includes('evil'))"
        )
        == []
    )


def test_a_ui_in_the_background_of_a_script_serves_alone_and_leaves_nothing(ui):
    """The last of all that share the UI: it ends it."""
    served = ui.served
    second = subprocess.run(
        [WME, "ui", "--port", str(free_port())],
        cwd=ROOT,
        env=served.environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (second.returncode, second.stdout) == (1, "")
    service, refusal = second.stderr.split("\n", 1)
    assert service.startswith(f"Service: {served.service}; ")
    assert refusal.startswith(f"Another `wme ui` is already serving {served.data}")

    with pytest.raises(urllib.error.HTTPError) as none, urllib.request.urlopen(f"{ui.url}/report", timeout=60):
        pass
    assert (none.value.code, none.value.read()[:25]) == (404, b"There is no report yet. M")
    # behind the guard, as everything else
    evil = urllib.request.Request(f"{ui.url}/report", headers={"Host": "evil.example"})
    with pytest.raises(urllib.error.HTTPError, match="403"), urllib.request.urlopen(evil, timeout=60):
        pass

    run = ui.run("stream", "STARTED")
    assert not [tag["key"] for tag in run["tags"] if "wme" in tag["key"]]
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(timeout=PATIENCE_SECONDS) == 128 + signal.SIGTERM
    assert left(served.process.pid) == []
    shown = served.log.read_text()
    assert shown.endswith(f"{SENTENCE}\n")
    # the stack of the run's interrupt would be below the last event
    assert "DagsterExecutionInterruptedError" not in shown
    assert "KeyboardInterrupt" not in shown
    assert " DEBUG " not in shown
