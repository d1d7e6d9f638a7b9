"""Everything by keyboard: the palette finds a job and opens it; keys go places and can be off."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import accessibility_breaches
from tests.browser.keys import by_keys, tab_to

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]


@pytest.fixture
def job(stack) -> Iterator[dict[str, Any]]:
    """It prints five lines a second, until the test is over however that ends; no other one has
    its name, by which it is found.
    """
    script = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo read by keyboard $i; sleep 0.2; done"
    job = stack.submit(name=f"keys-{secrets.token_hex(4)}", script=script)
    stack.wait_for(job["id"], "running")
    yield job
    cancel(stack, job)
    stack.wait_for(job["id"])


def cancel(stack, job: dict[str, Any]) -> None:
    with stack.api() as api:
        api.post(f"/jobs/{job['id']}/cancel/").raise_for_status()


def test_find_a_job_open_it_follow_its_log_without_a_mouse(stack, job, visit):
    page = by_keys(visit("alice", bypass_csp=True))
    page.goto("/")
    page.keyboard.press("Control+k")
    expect(page.locator("#palette-q")).to_be_focused()
    expect(page.locator("#palette-results a").first).to_be_visible()
    assert accessibility_breaches(page) == []
    page.keyboard.type(job["name"])
    expect(page.locator("#palette-results a")).to_have_count(1)
    expect(page.locator("#palette-results a")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(rf"/jobs/{job['id']}/$"))
    page.keyboard.press("l")
    page.wait_for_url(re.compile(r"/logs/"))
    says = page.locator("[data-says]")
    expect(says).to_contain_text("following")
    tab_to(page.locator(".lines"))
    page.keyboard.press("f")
    # As news of the last move to the end come on a busy machine: after the key.
    page.locator(".lines").dispatch_event("scroll")
    expect(says).to_contain_text("not following")
    before = page.locator(".rows > *").count()
    page.keyboard.press("f")
    expect(says).to_contain_text(re.compile(r"· following"))
    expect(page.locator(".rows > *").nth(before + 3)).to_be_in_viewport()
    cancel(stack, job)
    expect(says).to_contain_text("complete")


def test_keys_go_places_until_they_are_off(job, visit):
    page = visit("alice")
    page.goto("/")
    page.keyboard.press("?")
    expect(page.locator("#shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("q")
    page.wait_for_url(re.compile(r"/queue/$"))
    page.goto("/settings/profile/")
    page.get_by_role("button", name="Off", exact=True).click()
    expect(page.locator("body")).to_have_attribute("data-keys", "off")
    page.keyboard.press("c")
    page.get_by_label("Name shown to others").press("c")
    page.keyboard.press("Control+k")
    expect(page.locator("#palette")).to_be_visible()
    assert page.url.endswith("/settings/profile/")
    # One press closes it, whatever has been typed.
    page.keyboard.type("res")
    page.keyboard.press("Escape")
    expect(page.locator("#palette")).to_be_hidden()
    # Those of a log, too.
    page.goto(f"/jobs/{job['id']}/logs/")
    expect(page.locator("[data-says]")).to_contain_text("following")
    lines = page.locator(".lines")
    assert "keys" not in (lines.get_attribute("aria-label") or "")
    lines.press("w")
    lines.press("f")
    expect(lines).not_to_have_class(re.compile(r"\bwrap\b"))
    expect(page.locator("[data-tool=f]")).to_have_attribute("aria-pressed", "true")


def test_the_gpu_map_is_one_stop_and_arrows_lead_from_node_to_node(visit):
    page = by_keys(visit("alice", bypass_csp=True))
    page.goto("/cluster/?metric=temperature&numbers=yes")
    nodes = page.locator(".rack a[aria-label]")
    expect(nodes).to_have_count(2)
    expect(page.locator(".rack a[tabindex='0']")).to_have_count(1)
    assert accessibility_breaches(page) == []
    tab_to(nodes.first)
    page.keyboard.press("ArrowDown")
    expect(nodes.nth(1)).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(nodes.nth(1)).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(page.locator(".rack :focus")).to_have_count(0)
    page.keyboard.press("Tab")
    expect(nodes.nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/cluster/nodes/"))


def test_an_action_typed_leads_to_its_button_and_does_nothing_by_itself(stack, visit):
    job = stack.submit(name="acted-on", script="sleep 600")
    stack.wait_for(job["id"], "running")
    page = by_keys(visit("alice", bypass_csp=True))
    page.goto("/")
    page.keyboard.press("Control+k")
    expect(page.locator("#palette-q")).to_be_focused()
    page.keyboard.type(f"cancel {job['id']}")
    first = page.locator("#palette-results a").first
    expect(first).to_contain_text(f"Cancel job #{job['id']}")
    assert accessibility_breaches(page) == []
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(rf"/jobs/{job['id']}/#cancel-now$"))
    # The menu that holds it is open.
    expect(page.get_by_role("button", name=f"Cancel job #{job['id']}")).to_be_visible()
    expect(page.locator("#job-head")).to_contain_text("running")
    cancel(stack, job)
    stack.wait_for(job["id"])


def test_enter_opens_what_was_typed_and_a_place_on_the_same_page(stack, visit):
    job = stack.submit(name="typed-fast", script="sleep 600")
    stack.wait_for(job["id"], "running")
    page = visit("alice")
    page.goto(f"/jobs/{job['id']}/")
    page.keyboard.press("Control+k")
    expect(page.locator("#palette-results a").first).to_be_visible()
    # Before the answer for it can have come.
    page.keyboard.type(f"cancel {job['id']}", delay=0)
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"#cancel-now$"))
    expect(page.locator("#palette")).to_be_hidden()
    expect(page.get_by_role("button", name=f"Cancel job #{job['id']}")).to_be_visible()
    cancel(stack, job)
    stack.wait_for(job["id"])
