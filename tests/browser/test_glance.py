"""A job beside the list of jobs, by keys alone: the list stays, the focus stays, Esc closes."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import accessibility_breaches, cancel
from tests.browser.keys import by_keys, tab_to

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]


def test_jobs_are_gone_through_beside_their_list(stack, visit):
    script = "echo seen beside the list; sleep 600"
    jobs = [stack.submit(name=f"beside-{n}", script=script)["id"] for n in range(2)]
    for job in jobs:
        stack.wait_for(job, "running")
    older, newer = jobs
    page = by_keys(visit("alice", bypass_csp=True, viewport={"width": 1280, "height": 800}))
    try:
        page.goto("/jobs/?q=beside-")
        panel = page.locator("#glance")
        tab_to(page.locator(f"#job-{newer} .jn"))
        page.keyboard.press(".")
        expect(panel).to_be_visible()
        expect(panel).to_contain_text(f"beside-{jobs.index(newer)}")
        expect(panel.locator("pre")).to_contain_text("seen beside the list")
        assert accessibility_breaches(page) == []
        # The next row, without closing it: `.` had moved no focus away from the table.
        page.keyboard.press("j")
        expect(page.locator(f"#job-{older} .jn")).to_be_focused()
        page.keyboard.press(".")
        expect(panel).to_contain_text(f"#{older}")
        # Somebody else ends it: the panel follows, and says so.
        cancel(stack, older)
        expect(panel.locator(".pill")).to_have_text("cancelled")
        expect(page.locator(f"#job-{older} .pill")).to_have_text("cancelled")
        page.keyboard.press("Tab")
        expect(page.locator(f"#peek-{older}")).to_be_focused()
        page.keyboard.press("Tab")
        expect(panel.locator(":focus")).to_have_count(1)
        page.keyboard.press("Escape")
        expect(panel).to_be_hidden()
        expect(page.locator(f"#job-{older} .jn")).to_be_focused()
        # What is closed has no keys: `e` belongs to what is shown.
        page.keyboard.press("e")
        expect(page).to_have_url(re.compile(r"q=beside-$"))
        tab_to(page.locator(f"#job-{newer} .jn"))
        page.keyboard.press(".")
        expect(panel).to_contain_text(f"#{newer}")
        page.keyboard.press("e")
        page.wait_for_url(re.compile(rf"/jobs/{newer}/events/$"))
    finally:
        cancel(stack, newer)


def test_the_head_of_a_long_table_stays_in_sight(stack, visit):
    for number in range(3):
        stack.submit(name=f"held-{number}", script="true", hold=True)
    page = visit("alice", viewport={"width": 1280, "height": 420})
    page.goto("/jobs/?q=")
    head = page.locator("#job-rows thead th").nth(2)
    top = page.locator("header.top").bounding_box()
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    assert top is not None
    box = head.bounding_box()
    assert box is not None and abs(box["y"] - top["height"]) <= 1
    expect(head).to_be_in_viewport()
