"""`wme ui` as a script starts it: attacks of other websites from a browser's pages, and its end, which leaves nothing.

Forms that no browser sends: tests/unit/pipelines/test_webserver.py.
"""

import json
import signal
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
import requests
from playwright.sync_api import expect

from pipelines.process.interrupts import SENTENCE
from tests.e2e.conftest import ran, until
from tests.e2e.interface import WME, chromium, left
from tests.e2e.programs import PATIENCE_SECONDS
from tests.local_cluster import free_port

SELECTOR = 'repositoryLocationName: "enterprise-content-mirror", repositoryName: "__repository__"'
LAUNCH = (
    "mutation { launchRun(executionParams: {selector: {%s}, runConfigData: %s}) { __typename "
    "... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"
)

pytestmark = pytest.mark.timeout(600)


class Website(BaseHTTPRequestHandler):
    """Another website: it answers with a page, and notes what is sent to it."""

    page = ""
    posted: ClassVar = []

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(self.page.encode())

    def do_POST(self):
        self.posted.append(self.path)
        self.send_error(503)

    def log_message(self, *_):
        pass


@pytest.fixture
def evil():
    with ThreadingHTTPServer(("127.0.0.1", 0), Website) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_pages_of_other_websites_start_nothing_and_the_uis_own_page_works(served, evil):
    # a job that logs in, at the address of the other website, and that nobody else launches
    stolen = f'{{resources: {{enterprise: {{config: {{auth_url: "http://127.0.0.1:{evil}"}}}}}}}}'
    mutation = LAUNCH % (f'{SELECTOR}, jobName: "reference"', json.dumps(stolen))
    attacks = Path(__file__).with_name("attacks.html").read_text()
    attacks = attacks.replace("UI,", f"{json.dumps(served.url)},", 1)
    Website.page = attacks.replace("MUTATION,", f"{json.dumps(mutation)},", 1)
    with chromium("--host-resolver-rules=MAP rebound.example 127.0.0.1") as browser:
        page = browser.new_page(viewport={"width": 1500, "height": 2000})
        page.set_default_timeout(120_000)
        statuses = set()
        page.on("response", lambda answer: statuses.add(answer.status) if answer.url.startswith(served.url) else None)
        # another port of the same name, and another site
        for host in ("127.0.0.1", "localhost"):
            page.goto(f"http://{host}:{evil}/")
            page.wait_for_function("document.title === 'done'")
            found = page.evaluate("found")
            assert found["socket"] == "error"
            assert found["preflight"] == found["put"] == "TypeError"
        assert statuses <= {403, 405, 415}
        # a link may open the UI, and Dagster's playground, which runs nothing by itself
        with page.expect_navigation(url=f"{served.url}/graphql**") as navigation:
            page.evaluate("void (location.href = query)")
        assert navigation.value.status == 200
        # a name of theirs that leads to this machine
        answer = page.goto(f"http://rebound.example:{served.port}/")
        assert (answer.status, "WME_UI_HOSTS" in answer.text()) == (403, True)
        # nothing was started or recorded, and nobody got the password
        runs = served.ask('{ runsOrError(filter: {pipelineName: "reference"}) { ... on Runs { results { runId } } } }')
        assert (runs["runsOrError"]["results"], Website.posted) == ([], [])
        assets = served.ask("{ assetsOrError { ... on AssetConnection { nodes { key { path } } } } }")["assetsOrError"]
        assert ["forged"] not in [node["key"]["path"] for node in assets["nodes"]]
        page.goto(f"{served.url}/assets")
        expect(page.get_by_text("article_changes").first).to_be_visible()


def test_a_ui_in_the_background_of_a_script_serves_alone_and_leaves_nothing(served):
    """The last of all that share the UI: it ends it."""
    second = ran(WME, "ui", "--port", str(free_port()), environ=served.environ).fails(out="")
    service, refusal = second.err.split("\n", 1)
    assert service.startswith(f"Service: {served.service}; ")
    assert refusal.startswith(f"Another `wme ui` is already serving {served.data}")

    # behind the guard, as everything else, under the names that it is known by
    for host, status in ((None, 404), ("mirror.example.org", 404), ("evil.example", 403)):
        answer = requests.get(f"{served.url}/report", headers={"Host": host}, timeout=60)
        assert answer.status_code == status
        assert answer.text.startswith("There is no report yet. M" if status == 404 else "Refused: ")
    # and a path in another spelling, which `requests` would correct
    with pytest.raises(urllib.error.HTTPError, match="405"):
        urllib.request.urlopen(f"{served.url}/%67raphql?query=x", timeout=60)

    launched = served.ask(LAUNCH % (f'{SELECTOR}, jobName: "stream"', "{}"))["launchRun"]["run"]["runId"]
    asked = f'{{ runOrError(runId: "{launched}") {{ ... on Run {{ status tags {{ key }} }} }} }}'

    def run():
        return served.ask(asked)["runOrError"]

    until(lambda: run()["status"] == "STARTED", PATIENCE_SECONDS, "It runs", served.log, pause=0.2)
    assert not [tag["key"] for tag in run()["tags"] if "wme" in tag["key"]]
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(timeout=PATIENCE_SECONDS) == 128 + signal.SIGTERM
    assert left(served.process.pid) == []
    shown = served.log.read_text()
    assert shown.endswith(f"{SENTENCE}\n")
    # the stack of the run's interrupt would be below the last event
    assert "DagsterExecutionInterruptedError" not in shown
    assert "KeyboardInterrupt" not in shown
    assert " DEBUG " not in shown
