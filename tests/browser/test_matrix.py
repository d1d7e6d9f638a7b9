"""Every page as everybody sees it, in both themes and two widths: no breach of accessibility."""

from __future__ import annotations

import pytest
from playwright.sync_api import Error, Page

from tests.browser import seeding
from tests.browser.conftest import OF_COLOURS, accessibility_breaches
from tests.browser.places import addresses

pytestmark = [pytest.mark.long, pytest.mark.stack, pytest.mark.timeout(1200)]

# A researcher, a lead, finance of teams, an operator, somebody of another team, who keeps the books
# of the organisation, who audits it, and the administrator.
PEOPLE = ("alice", "lena", "finn", "olga", "chen", "frida", "amir", "admin")
WIDTHS = (1280, 390)
# All of them in one theme; `test_every_page.py` asks them in the other one.
RULES: dict[str, tuple[str, ...]] = {"light": (), "dark": OF_COLOURS}
# Fewer would mean that pages were refused which are theirs, and that nobody looked.
LEAST_PAGES = 20


@pytest.fixture(scope="module")
def things(stack):
    made = seeding.furnish(stack)
    yield made
    seeding.clear(stack, made)


def _breaches(page: Page, rules: tuple[str, ...]) -> list[str]:
    """Also of a page that comes anew meanwhile, because its job has ended."""
    try:
        return accessibility_breaches(page, rules)
    except Error as gone:
        if "context was destroyed" not in str(gone):
            raise
    page.wait_for_load_state("load")
    return accessibility_breaches(page, rules)


@pytest.mark.parametrize("person", PEOPLE)
def test_pages_are_accessible_to_everybody(things, visit, person):
    # Half-way through a change of theme no colour is what it will be.
    page = visit(person, bypass_csp=True, reduced_motion="reduce")
    breaches: set[str] = set()
    looked_at = 0
    for address in addresses(things):
        # A refusal would be a complaint of the console.
        if page.request.get(address).status >= 400:
            continue
        looked_at += 1
        page.goto(address)
        page.wait_for_load_state("load")
        for theme, rules in RULES.items():
            page.emulate_media(color_scheme=theme)
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                found = _breaches(page, rules)
                breaches |= {f"{theme} {width} {one}" for one in found}
    assert not breaches
    assert looked_at >= LEAST_PAGES
