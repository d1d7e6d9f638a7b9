"""At full length: a million lines, a minute of a busy log, twenty seconds without a socket."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import expect_live

pytestmark = [pytest.mark.long, pytest.mark.stack, pytest.mark.timeout(900)]

LINES = 1_000_000
A_SECOND, FOR_S = 500, 60
MIB = 1024 * 1024
BUSY = f"""
python3 - <<'PY'
import sys, time
began = time.monotonic()
for n in range(1, {A_SECOND * FOR_S} + 1):
    sys.stdout.write("tick %d\\n" % n)
    if n % 50 == 0:
        sys.stdout.flush()
        time.sleep(max(0, began + n / {A_SECOND} - time.monotonic()))
PY
sleep 600
"""
_WATCH = """
window.seen = {inp: 0};
new PerformanceObserver((l) => l.getEntries().forEach((e) => {
  if (e.interactionId) seen.inp = Math.max(seen.inp, e.duration); }))
  .observe({type: "event", durationThreshold: 16, buffered: true});
"""
# Whether the log has stopped following by the second frame after it was scrolled up: the first
# one carries the scroll to whoever listens.
_SCROLL = """() => new Promise((done) => {
  const view = document.querySelector(".lines");
  view.scrollTop -= 400;
  requestAnimationFrame(() => requestAnimationFrame(() =>
    done(document.querySelector("[data-says]").textContent)));
})"""
_STATES = """() => [...document.querySelectorAll("main .pill, #job-head, #job-live dd")]
  .map((cell) => cell.textContent.replace(/\\s+/g, " ").trim())"""


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


def test_a_minute_of_five_hundred_lines_a_second(stack, visit):
    page = visit("alice")
    page.add_init_script(_WATCH)
    job = running(stack, BUSY, "busy")
    page.goto(f"/jobs/{job}/logs/")
    says = page.locator("[data-says]")
    expect(says).to_contain_text("following")
    # Rows that leave the window at its top were seen: whether one was ever left out between two.
    page.evaluate(
        """() => {
          const number = (row) => Number(row.id.slice(1));
          const rows = document.querySelector(".rows");
          seen.gaps = []; seen.last = rows.lastElementChild ? number(rows.lastElementChild) : 0;
          new MutationObserver((changes) => changes.forEach((change) =>
            change.addedNodes.forEach((row) => {
              if (row.nodeType !== 1) return;
              if (number(row) !== seen.last + 1) seen.gaps.push([seen.last, number(row)]);
              seen.last = number(row);
            }))).observe(rows, {childList: true});
        }"""
    )
    until = time.monotonic() + FOR_S / 2
    while time.monotonic() < until:
        page.locator("[data-tool=follow]").focus()
        page.keyboard.press("Shift")
        page.wait_for_timeout(500)
    assert page.evaluate("seen.gaps") == []
    assert page.evaluate("seen.last") > A_SECOND * FOR_S / 4
    assert "not following" in page.evaluate(_SCROLL)
    at = page.locator(".lines").evaluate("view => view.scrollTop")
    page.wait_for_timeout(2000)
    assert page.locator(".lines").evaluate("view => view.scrollTop") == at
    expect(page.locator("[data-more]")).to_contain_text("new lines")
    page.locator("[data-more]").click()
    expect(says).to_contain_text("following")
    end_line = page.locator(f"#L{A_SECOND * FOR_S}")
    expect(end_line).to_contain_text(f"tick {A_SECOND * FOR_S}", timeout=FOR_S * 1000)
    assert page.evaluate("seen.inp") < 200
    end(stack, job)


def test_twenty_seconds_without_a_socket(stack, visit):
    job = running(stack, "sleep 600", "away")
    page = visit("alice")
    doors, away = [], []

    def door(socket) -> None:
        if away:
            socket.close()
        else:
            socket.connect_to_server()
            doors.append(socket)

    page.route_web_socket(re.compile(r"/ws/$"), door)
    page.goto(f"/jobs/{job}/")
    chip = page.locator("#live-chip")
    expect_live(chip)
    away.append(True)
    doors[-1].close()
    expect(chip).to_contain_text("Live paused")
    end(stack, job)
    page.wait_for_timeout(20_000)
    away.clear()
    expect_live(chip)
    expect(page.locator("#job-head")).to_contain_text("cancelled")
    told = page.evaluate(_STATES)
    page.reload()
    expect_live(chip)
    assert told == page.evaluate(_STATES)
