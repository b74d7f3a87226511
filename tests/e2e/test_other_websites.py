"""`wme ui` as a script starts it: attacks of other websites on it, and its end.

The attacks come from a browser's pages. None starts anything, and nothing leads the password to the attacker. The end
leaves nothing. (Forms that no browser sends: tests/unit/pipelines/test_webserver.py.)
"""

import json
import signal
import threading
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import dagster as dg
import pytest
from playwright.sync_api import expect

from assets.describe import failed_hours, markdown, sentence
from assets.layers import EARLIEST
from pipelines.process.interrupts import SENTENCE
from pipelines.process.processes import opened
from resources.formatting import markdown_text
from tests.e2e.conftest import PATIENCE_SECONDS, ran, until
from tests.e2e.interface import WME, Mirror, chromium, left
from tests.local_cluster import free_port

SELECTOR = 'repositoryLocationName: "enterprise-content-mirror", repositoryName: "__repository__"'
LAUNCH = (
    "mutation { launchRun(executionParams: {selector: {%s}, runConfigData: %s}) { __typename "
    "... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"
)

pytestmark = pytest.mark.timeout(600)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(200)

    def do_POST(self):
        self.server.posted.append(self.path)
        self.answer(503)

    def answer(self, status):
        content = self.server.page.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


class Website(ThreadingHTTPServer):
    """Another website: it answers with a page, and notes what is sent to it."""

    page = ""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.posted = []


@dataclass
class Ui:
    """The UI, by GraphQL, and another website."""

    served: Mirror
    evil: Website

    def __post_init__(self):
        self.url, self.port, self.ask = self.served.url, self.served.port, self.served.ask

    def mutation(self):
        """The launch of a job that logs in, at the address of the other website."""
        stolen = f'{{resources: {{enterprise: {{config: {{auth_url: "http://127.0.0.1:{self.evil.server_port}"}}}}}}}}'
        return LAUNCH % (f'{SELECTOR}, jobName: "reference"', json.dumps(stolen))  # which nobody else launches

    def untouched(self):
        """Nothing was started or recorded, and nobody got the password."""
        runs = self.ask('{ runsOrError(filter: {pipelineName: "reference"}) { ... on Runs { results { runId } } } }')
        assert runs["runsOrError"]["results"] == []
        assert self.evil.posted == []
        assets = self.ask("{ assetsOrError { ... on AssetConnection { nodes { key { path } } } } }")["assetsOrError"]
        assert ["forged"] not in [node["key"]["path"] for node in assets["nodes"]]


@pytest.fixture(scope="module")
def ui(served):
    with Website() as evil:
        thread = threading.Thread(target=evil.serve_forever, daemon=True)
        thread.start()
        yield Ui(served, evil)
        evil.shutdown()
        thread.join()


def test_pages_of_other_websites_start_nothing_and_the_uis_own_page_works(ui):
    attacks = Path(__file__).with_name("attacks.html").read_text()
    ui.evil.page = attacks.replace("UI,", f"{json.dumps(ui.url)},", 1).replace(
        "MUTATION,", f"{json.dumps(ui.mutation())},", 1
    )
    names = f"MAP rebound.example 127.0.0.1, MAP mirror.example.org:80 127.0.0.1:{ui.port}"
    with chromium(f"--host-resolver-rules={names}") as browser:
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
            page.goto(f"http://{host}:{ui.evil.server_port}/")
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

        page.goto(f"{ui.url}/assets")
        expect(page.get_by_text("article_changes").first).to_be_visible()
        _names_in_markdown_are_text(ui, page)


def _no_frame_shows_it(ui, page):
    """The public name over plain http, to which browsers send no Sec-Fetch-Dest.

    Whoever frames the UI could have it clicked.
    """
    public = "http://mirror.example.org/assets"
    page.route("**/*.js", lambda route: route.abort())  # not about what the page shows
    answer = page.goto(public)
    assert (answer.status, "sec-fetch-dest" in answer.request.all_headers()) == (200, False)
    ui.evil.page = f'<!doctype html><title>game</title><iframe src="{public}"></iframe>'
    page.goto(f"http://127.0.0.1:{ui.evil.server_port}/")
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
    second = ran(WME, "ui", "--port", str(free_port()), environ=served.environ).fails(out="")
    service, refusal = second.err.split("\n", 1)
    assert service.startswith(f"Service: {served.service}; ")
    assert refusal.startswith(f"Another `wme ui` is already serving {served.data}")

    with pytest.raises(urllib.error.HTTPError) as none, urllib.request.urlopen(f"{ui.url}/report", timeout=60):
        pass
    assert (none.value.code, none.value.read()[:25]) == (404, b"There is no report yet. M")
    # behind the guard, as everything else
    evil = urllib.request.Request(f"{ui.url}/report", headers={"Host": "evil.example"})
    # and a path in another spelling
    spelt = f"{ui.url}/%67raphql?query=x"
    for request, status in ((evil, "403"), (spelt, "405")):
        with pytest.raises(urllib.error.HTTPError, match=status), urllib.request.urlopen(request, timeout=60):
            pass

    launched = ui.ask(LAUNCH % (f'{SELECTOR}, jobName: "stream"', "{}"))["launchRun"]["run"]["runId"]
    asked = f'{{ runOrError(runId: "{launched}") {{ ... on Run {{ status tags {{ key }} }} }} }}'
    until(
        lambda: ui.ask(asked)["runOrError"]["status"] == "STARTED", PATIENCE_SECONDS, "It runs", served.log, pause=0.2
    )
    assert not [tag["key"] for tag in ui.ask(asked)["runOrError"]["tags"] if "wme" in tag["key"]]
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(timeout=PATIENCE_SECONDS) == 128 + signal.SIGTERM
    assert left(served.process.pid) == []
    shown = served.log.read_text()
    assert shown.endswith(f"{SENTENCE}\n")
    # the stack of the run's interrupt would be below the last event
    assert "DagsterExecutionInterruptedError" not in shown
    assert "KeyboardInterrupt" not in shown
    assert " DEBUG " not in shown
