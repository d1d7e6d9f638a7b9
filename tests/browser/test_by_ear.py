"""The script for a screen reader (`README.md` here), followed in Chromium's accessibility tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PATIENCE_MS
from tests.browser.keys import by_keys, press, tab_to, write
from tests.browser.passing import keep_time, pass_time

pytestmark = [pytest.mark.stack, pytest.mark.timeout(400)]

_SCRIPT = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
_ROW = re.compile(r"^\| (\d+) [^|]+\|[^|]+\| (.+) \|$", re.M)
STEPS = {int(number): re.findall(r"`([^`]+)`", heard) for number, heard in _ROW.findall(_SCRIPT)}
_PRINTS = "i=0; while [ $i -lt 600 ]; do i=$((i+1)); echo tick $i; sleep 0.1; done; sleep 600"


@pytest.fixture
def jobs(stack) -> Iterator[tuple[int, int]]:
    """One that waits for more GPUs than are free, and one that runs and prints."""
    runs = stack.submit(name="heard-running", script=_PRINTS)["id"]
    stack.wait_for(runs, "running")
    waits = stack.submit(name="heard-waiting", script="true", nodes=2, gpus_per_node=8)["id"]
    yield waits, runs
    with stack.api() as api:
        for one in (waits, runs):
            api.post(f"/jobs/{one}/cancel/")
    stack.wait_for(runs)


def hear(page: Page, step: int) -> None:
    """Every piece that the script promises for a step is in the tree, role and name."""
    for piece in STEPS.pop(step):
        words = re.escape(piece).replace("…", ".*")
        deadline = PATIENCE_MS // 500
        while not re.search(words, tree := page.locator("body").aria_snapshot()):
            assert (deadline := deadline - 1), f"step {step}: {piece} is not in\n{tree}"
            page.wait_for_timeout(500)


def sign_in(page: Page, password: str) -> None:
    """The first two steps."""
    page.goto("/accounts/login/")
    hear(page, 1)
    write(page.get_by_label("User name or email"), "alice")
    write(page.get_by_label("Password", exact=True), password)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Home", exact=True)).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    hear(page, 2)


def test_every_step_is_heard(stack, jobs, visit):
    waits, runs = jobs
    page = keep_time(by_keys(visit()))
    sign_in(page, stack.password("alice"))
    page.keyboard.press("g")
    page.keyboard.press("j")
    page.wait_for_url("**/jobs/")
    hear(page, 3)
    waiting = page.get_by_role("link", name="heard-waiting").first
    press(waiting)
    page.wait_for_url(f"**/jobs/{waits}/")
    hear(page, 4)
    with stack.api() as api:
        api.post(f"/jobs/{waits}/cancel/").raise_for_status()
    expect(page.locator("#job-head")).to_contain_text("cancelled")
    pass_time(page, 12)
    hear(page, 5)
    expect(page).to_have_title(re.compile("^.? ?heard-waiting|cancelled"))
    page.goto(f"/jobs/{runs}/")
    page.keyboard.press("l")
    page.wait_for_url("**/logs/")
    lines = page.get_by_role("log")
    tab_to(lines)
    hear(page, 6)
    assert lines.get_attribute("aria-live") == "off"
    page.keyboard.press("f")
    hear(page, 7)
    page.keyboard.press("/")
    page.keyboard.type("tick 3")
    page.keyboard.press("Enter")
    expect(page.locator("[data-found]")).to_contain_text(" of ")
    page.keyboard.press("n")
    hear(page, 8)
    for step, url in ((9, f"/jobs/{runs}/metrics/"), (10, "/cluster/"), (13, "/usage/waste/")):
        page.goto(url)
        hear(page, step)
    page.goto("/jobs/new/")
    write(page.locator("#id_memory"), "lots")
    page.keyboard.press("Enter")
    expect(page.locator("#form-errors")).to_be_focused()
    hear(page, 11)
    page.goto("/")
    page.keyboard.press("Control+k")
    expect(page.locator("#palette-q")).to_be_focused()
    hear(page, 12)
    assert not STEPS, "the script has a step that nobody follows here"
