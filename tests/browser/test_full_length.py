"""At full length: a million lines, twenty seconds without a socket."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Door, expect_live

pytestmark = [pytest.mark.long, pytest.mark.stack, pytest.mark.timeout(900)]

LINES = 1_000_000
MIB = 1024 * 1024
# Without ages, which count on while it is read.
_STATES = """() => [...document.querySelectorAll("main .pill, #job-head, #job-live dd")]
  .map((cell) => cell.textContent.replace(/\\s+/g, " ").replace(/[\\d a-z]+ ago/g, "").trim())"""


def running(stack, script: str, name: str) -> int:
    job: int = stack.submit(name=name, script=script)["id"]
    stack.wait_for(job, "running")
    return job


def end(stack, job: int) -> None:
    with stack.api() as api:
        api.post(f"/jobs/{job}/cancel/").raise_for_status()
    stack.wait_for(job)


def heap_mib(page: Page) -> float:
    client = page.context.new_cdp_session(page)
    client.send("HeapProfiler.collectGarbage")
    return float(client.send("Runtime.getHeapUsage")["usedSize"]) / MIB


def test_a_million_lines(stack, visit):
    job = running(stack, f"seq -f 'step=%g loss=1.5' {LINES}; sleep 600", "million")
    address = f"/jobs/{job}/logs/"
    page = visit("alice")
    page.goto(address)
    says = page.locator("[data-says]")
    expect(says).to_contain_text("of 1,000,000", timeout=120_000)

    page.goto(address)
    expect(page.locator(f"#L{LINES}")).to_be_in_viewport()
    paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    assert page.evaluate(paint) <= 1000

    page.goto(f"{address}#L900000")
    page.reload()
    line = page.locator("#L900000")
    expect(line).to_be_in_viewport()
    expect(line).to_contain_text("step=900000 ")
    expect(page.locator(".ln.sel")).to_have_count(1)

    page.locator(".lines").press("/")
    page.keyboard.type("=77777 ")
    began = time.monotonic()
    page.keyboard.press("Enter")
    expect(page.locator("[data-found]")).to_have_text("1 of 1 line")
    expect(page.locator("#L77777")).to_be_in_viewport()
    assert time.monotonic() - began <= 2
    assert heap_mib(page) < 150
    end(stack, job)


def test_twenty_seconds_without_a_socket(stack, visit):
    job = running(stack, "sleep 600", "away")
    page = visit("alice")
    door = Door(page)
    page.goto(f"/jobs/{job}/")
    chip = page.locator("#live-chip")
    expect_live(chip)
    door.shut()
    expect(chip).to_contain_text("Live paused")
    end(stack, job)
    page.wait_for_timeout(20_000)
    door.open()
    expect_live(chip)
    expect(page.locator("#job-head")).to_contain_text("cancelled")
    told = page.evaluate(_STATES)
    page.reload()
    expect_live(chip)
    assert told == page.evaluate(_STATES)
