"""Every page, in both themes and two widths: no complaint, no breach of accessibility."""

from __future__ import annotations

import pytest

from tests.browser.conftest import PATIENCE_MS, accessibility_breaches
from tests.browser.places import PUBLIC, addresses

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def finished_job(stack) -> int:
    """A job with a log, samples and a cost."""
    script = "for i in 1 2 3 4 5; do echo line $i; sleep 1; done"
    job = stack.submit(name="a-finished-job", script=script)
    stack.wait_for(job["id"])
    return job["id"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_are_accessible_in_both_themes(finished_job, visit, theme):
    # axe itself would be refused by the pages' content policy, which the next test keeps on.
    page = visit("admin", color_scheme=theme, bypass_csp=True)
    breaches = []
    for address in addresses(finished_job):
        page.goto(address)
        page.wait_for_load_state("load")
        breaches += accessibility_breaches(page)
    assert not breaches


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_public_pages_are_accessible(visit, theme):
    page = visit(color_scheme=theme, bypass_csp=True)
    breaches = []
    for address in PUBLIC:
        page.goto(address)
        breaches += accessibility_breaches(page)
    assert not breaches


def test_pages_complain_about_nothing_and_fit(finished_job, visit):
    """Console, content policy and other hosts are watched by the fixture; each page is loaded as
    on a desk, begins at its top, and is then made as narrow and as wide as screens are."""
    page = visit("admin")
    too_wide, scrolled = [], []
    for address in addresses(finished_job):
        page.set_viewport_size({"width": 1280, "height": 900})
        page.goto(address)
        page.wait_for_load_state("load")
        if page.evaluate("scrollY"):
            scrolled.append(address)
        for width in (1280, 320, 2560):
            page.set_viewport_size({"width": width, "height": 900})
            if not fits(page):
                too_wide.append((address, width))
    assert not too_wide and not scrolled


FITS = """document.documentElement.scrollWidth <= innerWidth
  && [...document.querySelectorAll('.plot')].every(
    (plot) => plot.clientHeight >= (plot.querySelector('svg')?.clientHeight ?? 0))"""


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
