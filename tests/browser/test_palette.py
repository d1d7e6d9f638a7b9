"""Everything by keyboard: the palette finds a job and opens it; keys go places and can be off."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import accessibility_breaches

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]


def test_find_a_job_open_it_read_its_log_without_a_mouse(stack, visit):
    job = stack.submit(name="keyboard-only-run", script="echo read by keyboard")
    stack.wait_for(job["id"])
    page = visit("alice", bypass_csp=True)
    page.goto("/")
    page.keyboard.press("Control+k")
    expect(page.locator("#palette-q")).to_be_focused()
    expect(page.locator("#palette-results a").first).to_be_visible()
    assert accessibility_breaches(page) == []
    page.keyboard.type("keyboard-only")
    expect(page.locator("#palette-results a")).to_have_count(1)
    expect(page.locator("#palette-results a")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(rf"/jobs/{job['id']}/$"))
    page.keyboard.press("l")
    page.wait_for_url(re.compile(r"/logs/"))
    expect(page.locator("main")).to_contain_text("read by keyboard")


def test_keys_go_places_until_they_are_off(visit):
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
