"""The guard of the Dagster UI refuses what browsers send for other websites, and nothing else."""

import asyncio
import re

import pytest

from pipelines.process.webserver import guarded, with_report
from resources import settings
from resources.settings import SettingsError

JSON, OWN = {"content-type": "application/json"}, {"host": "127.0.0.1:3000"}
PUBLIC = ("mirror.example.org", "ops.example.org:8443")
MUTATION = "mutation { launchRun { __typename } }"


#: A header of the server itself. Another one follows, because a policy is only ever narrowed by another.
OWN_POLICY = (b"content-security-policy", b"base-uri 'none'")


def ask(method="GET", target="/", *headers, kind="http", hosts=PUBLIC, **named):
    """The status and the text of the answer to a request; 200 and `reached`: the server itself was asked."""
    path, _, query = target.partition("?")
    pairs = [*headers, *((name.replace("_", "-"), value) for name, value in named.items())]
    sent = [(name.lower().encode(), value.encode("latin-1")) for name, value in pairs]
    scope = {"type": kind, "path": path, "raw_path": path.encode(), "query_string": query.encode(), "headers": sent}
    scope |= {"method": method} if kind == "http" else {"extensions": {"websocket.http.response": {}}}

    async def server(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [OWN_POLICY]})
        await send({"type": "http.response.body", "body": b"reached"})

    start, body = sent_by(guarded(server, hosts), scope)
    if start["status"] == 200:
        # no other website shows it in a frame, of a browser that does not tell either
        assert start["headers"] == [OWN_POLICY, (b"content-security-policy", b"frame-ancestors 'self'")]
    return start["status"], body["body"].decode()


def sent_by(app, scope):
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, None, send))
    return sent


def is_reached(*words, **named):
    status, text = ask(*words, **named)
    assert (text == "reached") == (status == 200)
    assert text == "reached" or (text.startswith("Refused: ") and text.endswith(" Nothing was done.\n"))
    return text == "reached"


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.1:3000", "localhost:1", "LOCALHOST:3000", "localhost.", "localhost.:3000", "[::1]",
     "[::1]:3000", "mirror.example.org", "Mirror.Example.ORG.", "mirror.example.org:443", "mirror.example.org:80",
     "ops.example.org:8443"],
)  # fmt: skip
def test_a_configured_host_is_answered(host):
    assert is_reached(host=host)
    assert is_reached("POST", "/graphql", *JSON.items(), host=host, origin=f"http://{host}")
    assert is_reached(target="/graphql", kind="websocket", host=host, origin=f"https://{host}")


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:3000", "localhost.evil.example", "127.0.0.1.evil.example", "evil.example#127.0.0.1",
     "127.0.0.1@evil.example", "evil.example, localhost", "localhost evil.example", "localhost..", "", ":3000",
     "0.0.0.0:3000", "127.0.0.1:3000:3000", "127.0.0.1:", "127.0.0.1:x", "127.1", "2130706433", "[::ffff:127.0.0.1]",
     "[::1", "localhost%00", "l\xf6calhost", "mirror.example.org:8443", "ops.example.org", "www.mirror.example.org",
     "localhost/", "http://localhost", "localhost\n", "*"],
)  # fmt: skip
def test_another_host_is_refused_with_the_setting_that_allows_it(host):
    for kind in ("http", "websocket"):
        status, text = ask(kind=kind, host=host)
        assert status == 403
        assert "WME_UI_HOSTS" in text
        assert repr(host) in text
    assert not is_reached(host=host, x_forwarded_host="localhost", forwarded="host=localhost")


@pytest.mark.parametrize(
    "origin",
    ["null", "", "http://evil.example", "https://127.0.0.1.evil.example", "http://127.0.0.1:3001", "http://127.0.0.1", "http://localhost:3000",
     "http://[::1]:3000", "file://", "chrome-extension://127.0.0.1:3000", "http://127.0.0.1:3000.evil.example", "http://127.0.0.1:3000/x",
     "http://evil.example http://127.0.0.1:3000", "//127.0.0.1:3000", "127.0.0.1:3000", "http://u@127.0.0.1:3000", "ftp://mirror.example.org",
     "https://mirror.example.org:8443"],
)  # fmt: skip
def test_a_page_of_another_origin_is_refused_whatever_it_asks_for(origin):
    for method, kind in (("GET", "http"), ("POST", "http"), ("OPTIONS", "http"), ("GET", "websocket")):
        status, text = ask(method, "/graphql", *(OWN | JSON).items(), kind=kind, origin=origin)
        assert status == 403
        assert "WME_UI_HOSTS" in text
    own = "http://127.0.0.1:3000"
    for two in ((own, origin), (origin, own)):
        assert not is_reached("POST", "/graphql", *(OWN | JSON).items(), *(("Origin", one) for one in two))


NAVIGATION = {"sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}


@pytest.mark.parametrize("site", ["cross-site", "same-site", "Same-Origin", "", "other"])
def test_another_website_can_open_the_ui_by_a_link_and_no_more(site):
    fetch = OWN | {"sec_fetch_site": site}
    assert is_reached("GET", "/runs", **fetch, **NAVIGATION)
    assert is_reached("HEAD", "/runs", **fetch, **NAVIGATION)
    for of in ("no-cors image", "cors empty", "navigate iframe", "navigate embed", "no-cors document"):
        mode, dest = of.split()
        status, text = ask("GET", "/runs", **fetch, sec_fetch_mode=mode, sec_fetch_dest=dest)
        assert (status, "Sec-Fetch-Site" in text) == (403, True)
    assert not is_reached("GET", "/runs", **fetch)
    assert not is_reached("POST", "/graphql", **fetch, **NAVIGATION, content_type="application/json")
    assert not is_reached(kind="websocket", target="/graphql", **fetch, **NAVIGATION)
    assert not is_reached("GET", "/", *(("Sec-Fetch-Site", one) for one in ("none", site)), **OWN, **NAVIGATION)


@pytest.mark.parametrize(
    "target",
    ["/graphql?query=mutation%20%7Ba%7D", "/graphql?query={version}", "/graphql?%71uery=mutation{a}",
     "/graphql?QUERY=x", "/graphql?x", "/graphql?query=%EF%BB%BFMuTaTiOn{a}", "/graphql?query=%23c%0Amutation%20M{b:a}",
     "/prefix/graphql?query=x", "/graphql/?query=x", "/graphql?query=query%20Q{v}%20mutation%20M{a}&operationName=M",
     "/graphql?query=fragment%20F%20on%20M{a}mutation{...F}", "/graphql?extensions={%22persistedQuery%22:1}",
     "/graphql?variables={}&query=x"],
)  # fmt: skip
def test_graphql_is_not_run_by_get_whatever_it_says(target):
    for method in ("GET", "HEAD"):
        for more in ({}, JSON, {"x-http-method-override": "POST"}, {"accept": "image/*"}):
            status, text = ask(method, target, *(OWN | more).items())
            assert (status, "Use POST" in text) == (405, True)
    # Dagster's playground, which runs nothing by itself
    assert is_reached("GET", target, *OWN.items(), accept="text/html,application/xhtml+xml")


@pytest.mark.parametrize(
    "kind",
    [None, "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
     "text/plain; x=application/json", "text/json", "application/jsonp", "application/ json",
     "text/plain, application/json", "application/json, text/plain", "json"],
)  # fmt: skip
def test_what_a_form_can_send_is_refused_at_every_address(kind):
    more = {} if kind is None else {"content-type": kind}
    for target in ("/graphql", "/graphql?query=mutation{a}", "/report_asset_check/a", "/x"):
        for method in ("POST", "PUT", "PATCH", "DELETE", "post", "PROPFIND"):
            status, text = ask(method, target, *(OWN | more).items())
            assert (status, "application/json" in text) == (415, True)
        if kind is not None:
            assert not is_reached("POST", target, *(OWN | more).items(), *JSON.items())


FETCH = {"sec_fetch_mode": "cors", "sec_fetch_dest": "empty"}
OWN_PAGE, PROXY = {"origin": "http://127.0.0.1:3000"}, {"origin": "https://mirror.example.org"}


def test_own_pages_programs_and_proxies_need_few_headers_and_none_twice():
    charset = {"content_type": "application/json; charset=utf-8"}
    answered = [
        *(ask("GET", "/logs/x", **OWN, **FETCH, sec_fetch_site=site) for site in ("same-origin", "none")),
        ask("POST", "/graphql", **OWN, **FETCH, **OWN_PAGE, **charset, sec_fetch_site="none"),
        ask(kind="websocket", target="/graphql", **OWN, **OWN_PAGE, sec_fetch_site="same-origin"),
        ask("GET", "/server_info", **OWN),
        ask("GET", "/server_info", host="127.0.0.1:3000", user_agent="Python-urllib/3.13", connection="close"),
        ask("POST", "/graphql", *(OWN | JSON).items()),
        ask("POST", "/graphql", **OWN, content_type="application/graphql"),
        ask("POST", "/report_asset_materialization/a", *(OWN | JSON).items()),
        ask("POST", "/graphql", *(OWN | JSON).items(), **PROXY),
        ask(kind="websocket", target="/graphql", **OWN, origin="https://ops.example.org:8443"),
    ]
    assert answered == [(200, "reached")] * len(answered)
    assert not is_reached("POST", "/graphql", *(OWN | JSON).items(), **PROXY, hosts=())
    assert not is_reached()
    twice = (400, "Refused: the header Host was sent twice. Nothing was done.\n")
    for two in (("localhost", "evil.example"), ("evil.example", "localhost"), ("localhost", "localhost")):
        assert ask("GET", "/", *(("Host", host) for host in two)) == twice
    _, text = ask(host="<script>\x1b[2J" + "a" * 5000)
    assert "\x1b" not in text
    assert len(text) < 500


@pytest.mark.parametrize("text", ["https://ui.example.org", "ui.example.org/ui", "*", "a b", "*.example.org", "a:b"])
def test_a_host_that_cannot_be_one_is_a_clear_error(text):
    with pytest.raises(SettingsError, match=r"WME_UI_HOSTS has .*without https://"):
        settings.read({"WME_UI_HOSTS": f"ok.example.org,{text}"})
    assert settings.read({"WME_UI_HOSTS": " A.example.org , b:8443"}).ui_hosts == ("A.example.org", "b:8443")


def report_of(page, method="GET", path="/report"):
    """The status, the text and the headers of the answer for the report; None: the server itself was asked."""

    async def server(_scope, _receive, send):
        await send(None)

    sent = sent_by(with_report(server, page), {"type": "http", "method": method, "path": path, "headers": []})
    return None if sent == [None] else (sent[0]["status"], sent[1]["body"].decode(), dict(sent[0]["headers"]))


def test_the_report_is_served_with_links_to_the_ui(tmp_path):
    page = tmp_path / "report.html"
    status, text, absent = report_of(page)
    assert (status, text[:25]) == (404, "There is no report yet. M")
    page.write_text("<header><h1>The mirror</h1></header><main><header>x</header></main>")
    status, text, headers = report_of(page)
    assert (status, report_of(page, "HEAD")[0]) == (200, 200)
    # an older report is never shown in place of the newest
    named = {b"x-content-type-options": b"nosniff", b"cache-control": b"no-store"}
    assert named.items() <= absent.items() & headers.items()
    head, _, rest = text.partition("</header>")
    assert rest == "<main><header>x</header></main>"
    # relative: right under any name and behind any proxy
    links = ["./", "assets/published/warehouse?view=checks", "assets/warehouse/article_changes?view=partitions", "runs"]
    assert (re.findall('href="([^"]*)"', head), page.read_text().count("href")) == (links, 0)
    for method, path in (("POST", "/report"), ("GET", "/reports"), ("GET", "/assets/published/report")):
        assert report_of(page, method, path) is None
