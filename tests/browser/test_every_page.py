"""Every page, in both themes and two widths: no complaint, no breach of accessibility."""

from __future__ import annotations

import pytest

from tests.browser.conftest import accessibility_breaches
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


@pytest.mark.parametrize("width", [390, 1280])
def test_pages_complain_about_nothing_and_fit(finished_job, visit, width):
    """Console, content policy and other hosts are watched by the fixture."""
    page = visit("admin", viewport={"width": width, "height": 900})
    too_wide = []
    for address in addresses(finished_job):
        page.goto(address)
        page.wait_for_load_state("networkidle")
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            too_wide.append(address)
    assert not too_wide


def test_a_page_that_does_not_exist_says_so(stack, visit):
    import httpx

    answer = httpx.get(f"{stack.address}/nothing/here/", follow_redirects=True)
    assert answer.status_code in (200, 404)
    page = visit("alice", bypass_csp=True)
    with stack.api("alice") as api:
        assert api.get("/jobs/999999/").status_code == 404
    assert page.request.get("/jobs/999999/").status == 404
