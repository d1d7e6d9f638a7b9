"""Every page, in both themes and two widths: no complaint, no breach of accessibility."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser import seeding
from tests.browser.conftest import OF_COLOURS, PATIENCE_MS, accessibility_breaches
from tests.browser.faults import fault_pages
from tests.browser.places import PLACES, PUBLIC, places_of
from tests.pages.raw_words import raw_words

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
THEMES = ("light", "dark")
# Of a page that has its heading alone.
MOST_EMPTY = 60
# Reached from every page alike.
OF_NO_ENTRY = ("/search/", "/notifications/")


@pytest.fixture(scope="module")
def things(stack):
    """One of each kind of thing that has a page of its own."""
    made = seeding.furnish(stack)
    yield made
    seeding.clear(stack, made)


@pytest.mark.parametrize("person", PLACES)
def test_pages_are_accessible_to_whose_they_are(things, visit, person):
    # axe itself would be refused by the pages' content policy, which another test keeps on.
    page = visit(person, bypass_csp=True, reduced_motion="reduce")
    breaches = []
    for address in places_of(person, things):
        breaches += breaches_in_both_themes(page, address)
    assert not breaches


def test_public_pages_and_errors_are_accessible(things, visit):
    page = visit(bypass_csp=True, reduced_motion="reduce")
    breaches = []
    for address in (*places_of("", things, PUBLIC), *fault_pages(page.context)):
        breaches += breaches_in_both_themes(page, address)
    assert not breaches


def breaches_in_both_themes(page: Page, address: str) -> list[str]:
    """All that axe asks, of the page as it opens in the dark; in the light what a theme changes.

    `test_matrix.py` goes the other way.
    """
    page.emulate_media(color_scheme="dark")
    page.goto(address)
    page.wait_for_load_state("load")
    dark = accessibility_breaches(page)
    page.emulate_media(color_scheme="light")
    light = accessibility_breaches(page, OF_COLOURS)
    return [*(f"dark {one}" for one in dark), *(f"light {one}" for one in light)]


@pytest.mark.parametrize("theme", THEMES)
def test_a_shell_in_the_browser_is_accessible(things, visit, theme):
    page = visit("alice", color_scheme=theme, bypass_csp=True)
    page.goto(f"/sessions/{things['session']}/")
    with page.expect_popup() as opened:
        page.get_by_role("button", name="Connect").click()
    shell = opened.value
    expect(shell.locator("#state")).to_have_text("connected")
    assert not accessibility_breaches(shell)
    for width in (1280, 390):
        shell.set_viewport_size({"width": width, "height": 900})
        box = shell.locator("#terminal").bounding_box()
        assert box["width"] == width and box["height"] > 800, box


@pytest.mark.parametrize("person", PLACES)
def test_pages_complain_about_nothing_and_fit(things, visit, person):
    """Console, content policy and other hosts are watched by the fixture; each page is loaded as
    on a desk, begins at its top, marks its entry of the rail, and is then made as narrow and as
    wide as screens are."""
    page = visit(person)
    too_wide, scrolled, raw, lost = [], [], [], []
    for address in places_of(person, things):
        page.set_viewport_size({"width": 1280, "height": 900})
        answer = page.goto(address)
        assert answer.status == 200, address
        page.wait_for_load_state("load")
        if page.evaluate("scrollY"):
            scrolled.append(address)
        is_of_none = address.startswith(OF_NO_ENTRY)
        if page.locator(".rail [aria-current]:visible").count() != (0 if is_of_none else 1):
            lost.append(address)
        if address != "/api/docs/":  # which is about names of fields
            raw += [(address, words) for words in raw_words(page.content())]
        too_wide += widths_that_break(page)
    assert not too_wide and not scrolled and not raw and not lost


@pytest.mark.parametrize("person", PLACES)
def test_pages_are_read_without_a_script(things, visit, person):
    """Each has its heading and its text, and offers nothing that only a script would do."""
    page = visit(person, java_script_enabled=False)
    for address in places_of(person, things):
        answer = page.goto(address)
        assert answer.status == 200, address
        expect(page.locator("h1:visible")).to_have_count(1)
        assert len(page.locator("main").inner_text()) > MOST_EMPTY, address
        assert page.locator(".needs-js:visible").count() == 0, address


def test_public_pages_and_errors_fit(things, visit):
    page = visit()
    too_wide = []
    for address in (*places_of("", things, PUBLIC), *fault_pages(page.context)):
        page.goto(address)
        too_wide += widths_that_break(page)
    assert not too_wide


FITS = """document.documentElement.scrollWidth <= innerWidth
  && [...document.querySelectorAll('.plot')].every(
    (plot) => plot.clientHeight >= (plot.querySelector('svg')?.clientHeight ?? 0))"""


def widths_that_break(page) -> list[tuple[str, int]]:
    """From a small phone to a large desk."""
    found = []
    for width in (1280, 320, 2560):
        page.set_viewport_size({"width": width, "height": 900})
        if not fits(page):
            found.append((page.url, width))
    return found


def fits(page) -> bool:
    """Whether nothing reaches beyond the window, and no chart over what follows it; charts are
    drawn anew a moment after the window moved.
    """
    for _ in range(PATIENCE_MS // 400):
        if page.evaluate(FITS):
            return True
        page.wait_for_timeout(100)
    return False


def test_a_page_that_does_not_exist_says_so(stack, visit):
    import httpx

    answer = httpx.get(f"{stack.address}/nothing/here/", follow_redirects=True)
    assert answer.status_code in (200, 404)
    page = visit("alice", bypass_csp=True)
    with stack.api("alice") as api:
        assert api.get("/jobs/999999/").status_code == 404
    assert page.request.get("/jobs/999999/").status == 404


def test_the_menu_of_a_phone_stays_within_its_screen(stack, visit):
    """However much there is for somebody: what does not fit is scrolled to."""
    page = visit("admin", viewport={"width": 390, "height": 640})
    page.goto("/help/")
    page.locator(".tabbar summary").click()
    menu = page.locator(".tabbar .menu-items")
    box = menu.bounding_box()
    assert box["y"] >= 0 and box["y"] + box["height"] <= 640
    menu.get_by_role("link", name="Templates").click()
    expect(page).to_have_url(re.compile("/templates/$"))
