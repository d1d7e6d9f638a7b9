"""A long log in a browser: links land on their line, all of it is searched, keys do it all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

LINES = 100_000
SCRIPT = f"""
echo "::group::set up"; echo ready; echo "::endgroup::"
seq -f 'step=%g loss=1.5' 4 {LINES - 1}
echo 'the End'
sleep 600
"""


@pytest.fixture
def job(stack) -> Iterator[dict[str, Any]]:
    """It prints all its lines at once and stays, until the test is over."""
    job = stack.submit(name="long-log", script=SCRIPT)
    yield job
    with stack.api() as api:
        api.post(f"/jobs/{job['id']}/cancel/").raise_for_status()
    stack.wait_for(job["id"])


def test_a_hundred_thousand_lines(job, visit):
    page = visit("alice")
    page.goto(f"/jobs/{job['id']}/logs/")
    view = page.locator(".lines")
    expect(page.locator(f"#L{LINES}")).to_be_in_viewport()
    expect(page.locator("[data-says]")).to_contain_text("following")

    page.goto(f"/jobs/{job['id']}/logs/?ts=utc#L90000-L90002")
    expect(page.locator("#L90000")).to_be_in_viewport()
    expect(page.locator("#L90000")).to_contain_text("step=90000 ")
    expect(page.locator(".ln.sel")).to_have_count(3)
    expect(page.locator("#L90000")).to_have_attribute("data-at", re.compile(r"^\d\d:\d\d:\d\dZ$"))

    view.press("/")
    page.keyboard.type("=4242")
    page.keyboard.press("Enter")
    # 4242 and 42420 to 42429, counted by the server over lines that are not here.
    expect(page.locator("[data-found]")).to_have_text(re.compile(r"^1 of 11 lines$"))
    expect(page.locator("#L4242")).to_be_in_viewport()
    page.keyboard.press("n")
    expect(page.locator("#L42420.at")).to_be_in_viewport()
    page.keyboard.press("N")
    page.keyboard.press("N")
    expect(page.locator("#L42429.at")).to_be_in_viewport()
    assert "q=%3D4242" in page.url and "ts=utc" in page.url
    expect(page.locator(".hits rect:not(.view)")).to_have_count(2)

    page.keyboard.press("g")
    page.keyboard.press("g")
    head = page.locator("#L1 .fold")
    head.click()
    expect(head).to_have_attribute("aria-expanded", "false")
    expect(page.locator("#L2")).to_be_hidden()
    assert page.locator(".rows > *").count() <= 5000

    page.get_by_role("button", name="Text size").click()
    expect(view).to_have_css("font-size", "16px")
    page.reload()
    expect(view).to_have_css("font-size", "16px")
    assert "size=large" in page.url
