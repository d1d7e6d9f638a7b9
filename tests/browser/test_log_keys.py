"""Following a log with keys alone: to it, on, found, linked, and out again."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.keys import by_keys, press, tab_to

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

NAME = "followed-by-keys"
# Out of the log, from wherever in it one stands.
_STOPS = 8


@pytest.fixture
def job(stack) -> Iterator[int]:
    made = stack.submit(name=NAME, script="seq -f 'line %g' 1200; sleep 600")["id"]
    stack.wait_for(made, "running")
    yield made
    with stack.api() as api:
        api.post(f"/jobs/{made}/cancel/")
    stack.wait_for(made)


def to_its_log(page: Page, job: int) -> None:
    """From home to the list, its first row, the job, and its log."""
    page.goto("/")
    page.keyboard.press("g")
    page.keyboard.press("j")
    page.wait_for_url("**/jobs/")
    page.keyboard.press("j")
    expect(page.locator("main table tbody tr :focus")).to_have_count(1)
    tab_to(page.locator(f"main table a[href='/jobs/{job}/']").first)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/jobs/{job}/")
    page.keyboard.press("l")
    page.wait_for_url(f"**/jobs/{job}/logs/")


def test_a_log_is_followed_searched_linked_and_left(job, visit):
    page = by_keys(visit("alice", permissions=["clipboard-read", "clipboard-write"]))
    to_its_log(page, job)
    says, lines = page.locator("[data-says]"), page.get_by_role("log")
    expect(says).to_contain_text("· following")
    # From anywhere on the page, as far as there is a button or a field for it.
    page.keyboard.press("f")
    expect(says).to_contain_text("not following")
    page.keyboard.press("f")
    expect(says).to_contain_text("· following")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Find in the whole log")).to_be_focused()
    # On and off, at the end and away from it.
    tab_to(lines)
    page.keyboard.press("f")
    expect(says).to_contain_text("not following")
    page.keyboard.press("PageUp")
    page.keyboard.press("g")
    page.keyboard.press("g")
    expect(page.locator("#L1")).to_be_in_viewport()
    page.keyboard.press("G")
    expect(page.locator("#L1200")).to_be_in_viewport()
    expect(says).to_contain_text("· following")
    # Found, the next one, and its link: the line that was found, not the one at the top.
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Find in the whole log")).to_be_focused()
    page.keyboard.type("line 30")
    page.keyboard.press("Enter")
    expect(page.locator("[data-found]")).to_have_text(re.compile(r"^1 of 11 lines$"))
    expect(lines).to_be_focused()
    page.keyboard.press("n")
    expect(page.locator("#L300.at")).to_be_in_viewport()
    page.keyboard.press("y")
    expect(page.get_by_text("Copied.").first).to_be_visible()
    link = page.evaluate("navigator.clipboard.readText()")
    assert link.endswith("&attempt=1&rank=0#L300"), link
    # Out of it, whatever it shows: what comes after the lines is a few stops away.
    for _ in range(_STOPS):
        page.keyboard.press("Tab")
        if page.evaluate("!document.activeElement.closest('.lines')"):
            break
    expect(page.locator(".lines :focus")).to_have_count(0)
    press(page.get_by_role("link", name="Find warnings"), "Shift+Tab")
    expect(lines).to_be_focused()
    # And the link leads whoever opens it to that line, which is read from there on.
    page.goto(link)
    expect(page.locator("#L300.sel")).to_be_in_viewport()
    expect(says).to_contain_text("not following")
