"""Menus that stand before what nobody can take back: seen whole, closed by Esc, then acting."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
WIDTHS = (1280, 390)


def opened(page: Page, verb: str) -> tuple[float, float]:
    """Presses the first button of this name; where its menu begins and ends, across the page."""
    menu = page.locator("main details.menu", has=page.locator("summary", has_text=verb)).first
    menu.locator("summary").click()
    items = menu.locator(".menu-items")
    expect(items).to_be_visible()
    # What an edge of a table cuts off cannot be pressed.
    items.locator("button").click(trial=True)
    box = items.bounding_box()
    assert box is not None
    return box["x"], box["x"] + box["width"]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_menu_that_says_what_follows_is_seen_whole(stack, visit, width):
    session = stack.submit(name="stays-open", script="", session={"app": "shell"}, gpus_per_node=0)
    stack.wait_for(session["id"], "running")
    page = visit("lena", viewport={"width": width, "height": 900})
    own = visit("alice", viewport={"width": width, "height": 900})
    for who, place, verb in (
        (page, "/teams/vision/members/", "Leave team"),
        (page, "/teams/vision/members/", "Remove"),
        (page, "/settings/tokens/", "Revoke"),
        (own, f"/sessions/{session['id']}/", "Stop"),
        (own, "/", "Stop"),
    ):
        who.goto(place)
        begin, end = opened(who, verb)
        assert begin >= 0 and end <= width, f"{verb} of {place}"
        assert who.evaluate("document.documentElement.scrollWidth") <= width
        who.keyboard.press("Escape")
        expect(who.locator("main details.menu[open]")).to_have_count(0)
    # The second press does it; that it is done is said as long as it is not over.
    own.goto(f"/sessions/{session['id']}/")
    opened(own, "Stop")
    own.get_by_role("button", name=f"Stop session {session['id']}").click()
    expect(own.get_by_text(re.compile("is being stopped|It has ended")).first).to_be_visible()
    stack.wait_for(session["id"])
    expect(own.get_by_text("It has ended")).to_be_visible()
    expect(own.get_by_text("is being stopped")).to_have_count(0)
