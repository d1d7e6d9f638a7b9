"""Quota from the ask to a start: asked, simulated and approved on a phone; a waiting job starts."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import accessibility_breaches
from tests.browser.keys import by_keys, press

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
PHONE = {"viewport": {"width": 390, "height": 844}}


def ask(page: Page) -> None:
    """One GPU more for her team, by the form."""
    page.goto("/requests/new/?owner=vision")
    page.get_by_label("For", exact=True).select_option("vision")
    page.get_by_label("What", exact=True).select_option("maximum")
    page.get_by_label("How many").fill("2")
    page.get_by_label("What it is for").fill("Two sweeps have to run side by side this week.")
    page.get_by_role("button", name="What would it bring?").click()
    expect(page.locator("#estimate")).to_be_visible()
    page.get_by_role("button", name="Submit request").click()
    page.wait_for_url(re.compile(r"/requests/\d+/"))
    expect(page.locator("h1")).to_contain_text("A higher maximum of GPUs for vision")


@pytest.fixture
def one_gpu(stack) -> Iterator[None]:
    """The team may have one GPU, until the test is over however that ends."""
    with stack.api("admin") as admin:
        quota = admin.post("/rules/quotas/", json={"owner": "vision", "maximum": 1})
        assert quota.status_code == 200, quota.text
    yield
    with stack.api("admin") as admin:
        assert admin.delete(f"/rules/quotas/{quota.json()['id']}/").status_code == 204


@pytest.mark.usefixtures("one_gpu")
def test_ask_simulate_approve_and_a_waiting_job_starts(stack, visit):
    loop = "i=0; while [ $i -lt 600 ]; do i=$((i+1)); sleep 0.5; done"
    holds = stack.submit(name="holds-the-quota", script=loop)
    stack.wait_for(holds["id"], "running")
    waits = stack.submit(name="waits-for-quota", script=loop)

    alice = visit("alice", **PHONE)
    ask(alice)
    here = alice.url

    # By the lead with keys alone, then by an administrator on a phone with three taps: more than
    # the team has is not the lead's.
    ways = {"lena": (press, {}), "admin": (lambda target: target.click(), PHONE)}
    for name, (go, screen) in ways.items():
        page = visit(name, **screen, bypass_csp=True)
        if not screen:
            by_keys(page)
        page.goto("/approvals/?state=mine")
        go(page.get_by_role("link", name=re.compile("A higher maximum")))
        go(page.get_by_role("button", name=re.compile("^Simulate")))
        expect(page.locator("#whatif")).to_contain_text("Oversubscribed by")
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= page.viewport_size["width"], "the page is wider than the screen"
        assert accessibility_breaches(page) == []
        # Three taps in all: open, simulate, decide. On a phone a line says what it does to
        # everyone, and all of it stands below.
        expect(page.get_by_label("Approve as asked")).to_be_checked()
        button = page.get_by_role("button", name=re.compile("Decide on version"))
        expect(page.locator("#decide > .pb > p").first).to_contain_text("wait")
        below = page.locator("#whatif").bounding_box()["y"] > button.bounding_box()["y"]
        assert below is bool(screen)
        go(button)
        expect(page.locator(".messages")).to_be_visible()
    alice.goto(here)
    expect(alice.locator("h1 + .pill")).to_contain_text("approved")
    expect(alice.locator("#history")).to_contain_text("Granted")
    stack.wait_for(waits["id"], "running")

    for job in (holds, waits):
        with stack.api() as api:
            api.post(f"/jobs/{job['id']}/cancel/")
        stack.wait_for(job["id"])


@pytest.mark.usefixtures("one_gpu")
def test_ask_and_decide_without_javascript(stack, visit):
    alice = visit("alice", java_script_enabled=False)
    ask(alice)
    for name in ("lena", "admin"):
        page = visit(name, java_script_enabled=False)
        page.goto("/approvals/?state=mine")
        page.get_by_role("link", name=re.compile("A higher maximum")).click()
        page.get_by_role("button", name=re.compile("^Simulate")).click()
        expect(page.get_by_label("Approve as asked")).to_be_checked()
        page.get_by_role("button", name=re.compile("Decide on version")).click()
        expect(page.locator(".messages")).to_be_visible()
    alice.reload()
    expect(alice.locator("h1 + .pill")).to_contain_text("approved")
