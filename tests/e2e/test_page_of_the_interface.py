"""The sandbox's page `/docs` in a browser: read, and a request sent from it, without any other host."""

from urllib.parse import urlsplit

from playwright.sync_api import expect

from resources.sandbox import Settings, running
from tests.e2e.interface import chromium


def test_an_operation_is_read_and_tried(tmp_path):
    with running(Settings(state=tmp_path)) as sandbox, chromium() as browser:
        page = browser.new_page()
        page.set_default_timeout(120_000)
        asked, wrong = [], []
        page.on("request", lambda request: asked.append(urlsplit(request.url)))
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        page.goto(f"{sandbox.url}/docs")
        expect(page.get_by_text("Enterprise Content Service", exact=False).first).to_be_visible()
        expect(page.get_by_text("OAS 3.1")).to_be_visible()
        page.locator("#operations-Service-healthz-get").click()
        page.locator("#operations-Service-healthz-get").get_by_role("button", name="Execute").click()
        answer = page.locator("#operations-Service-healthz-get .live-responses-table")
        expect(answer.get_by_text('"OK"')).to_be_visible()
    hosts = {url.netloc for url in asked if url.scheme in {"http", "https"}}
    assert hosts == {urlsplit(sandbox.url).netloc}
    assert "/healthz" in {url.path for url in asked}
    assert wrong == []
