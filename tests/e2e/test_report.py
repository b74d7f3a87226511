"""The report in a browser, wide and narrow, light and dark, without a network; and the page of the sandbox."""

import runpy
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from resources.sandbox import Settings, running
from tests.e2e.interface import chromium


@pytest.fixture(scope="module")
def path(filled, call, tmp_path_factory):
    """The page of a mirror of two hours and a snapshot, as `wme report` writes it."""
    environ, _ = filled
    path = tmp_path_factory.mktemp("report") / "page.html"
    assert call("report", "--output", str(path), environ=environ).done().out.startswith(f"{path} was written (")
    return path


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.mark.parametrize(("width", "height", "scheme"), [(375, 800, "dark"), (1440, 900, "light")])
def test_it_is_readable_and_has_no_barriers(path, browser, width, height, scheme):
    with browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme) as context:
        page = context.new_page()
        asked, wrong = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(path.as_uri())
        # the policy of the page runs no script, so this is the browser's own doing
        page.locator("summary").evaluate_all("all => all.forEach(one => { one.parentElement.open = true })")
        assert page.get_by_role("img").count() >= 3
        for picture in page.get_by_role("img").all():
            box = picture.bounding_box()
            assert 0 <= box["x"] <= box["x"] + box["width"] <= width
            assert box["height"] > 20
        letters = page.evaluate(
            "[...document.querySelectorAll('svg text')].map(one => [one.getBoundingClientRect(), "
            "one.closest('svg').getBoundingClientRect()])"
            ".filter(([own, all]) => own.left < all.left - 1 || own.right > all.right + 1).length"
        )
        assert letters == 0  # none is cut
        assert page.evaluate("document.documentElement.scrollWidth") == width
        found = Axe().run(page).response["violations"]
    assert [(one["id"], one["impact"], [node["html"] for node in one["nodes"]]) for one in found] == []
    assert wrong == []
    assert {url.split(":")[0] for url in asked} <= {"file", "data"}
    assert asked[0] == path.as_uri()


def test_the_screenshot_in_the_readme_shows_the_same_sections(path):
    images = Path(__file__).resolve().parents[2] / "docs" / "images"
    sections = runpy.run_path(str(images / "draw.py"))["sections"](path.read_text())
    assert sections.startswith("Newest hours; ")
    assert sections.encode("latin-1") in (images / "report.png").read_bytes(), "`make docs` takes it again"


def test_an_operation_is_read_and_tried_on_the_page_of_the_sandbox(tmp_path, browser):
    with running(Settings(state=tmp_path)) as sandbox, browser.new_page() as page:
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
    assert {url.netloc for url in asked if url.scheme in {"http", "https"}} == {urlsplit(sandbox.url).netloc}
    assert "/healthz" in {url.path for url in asked}
    assert wrong == []
