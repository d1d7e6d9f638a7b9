"""A log of five hundred lines a second: none is left out, keys answer, scrolling up pauses it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, WebSocket, expect

from portal.bench.faces.following import SCRIPT
from tests.browser.passing import keep_time, pass_time_until

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]

A_SECOND = 500
# Beside what is watched: the page opens while it prints, and it prints while it is scrolled up.
_SPARE_S = 16
MOST_INP_MS = 200
# How long each answer to a key or a press took, as the browser itself counts it.
_INPUTS = """
window.seen = {took: new Map()};
new PerformanceObserver((list) => list.getEntries().forEach(({interactionId: id, duration}) => {
  if (id) seen.took.set(id, Math.max(duration, seen.took.get(id) ?? 0)); }))
  .observe({type: "event", durationThreshold: 16, buffered: true});
"""
# Every row that ever comes: its number, which must be the next one, and its text, which says it.
_ROWS = """() => {
  const number = (row) => Number(row.id.slice(1));
  const rows = document.querySelector(".rows");
  seen.wrong = []; seen.last = rows.lastElementChild ? number(rows.lastElementChild) : 0;
  new MutationObserver((changes) => changes.forEach((change) =>
    change.addedNodes.forEach((row) => {
      if (row.nodeType !== 1) return;
      if (number(row) !== seen.last + 1 || !row.textContent.includes(`tick ${number(row)}`))
        seen.wrong.push([seen.last, row.id, row.textContent]);
      seen.last = number(row);
    }))).observe(rows, {childList: true});
}"""
# At each frame: how far the view is from the end, and whether the log still follows it.
_FRAMES = """() => {
  const view = document.querySelector(".lines");
  const says = document.querySelector("[data-says]");
  seen.frames = [];
  const note = () => {
    const left = view.scrollHeight - view.scrollTop - view.clientHeight;
    seen.frames.push([left, !says.textContent.includes("not following"), view.scrollTop]);
    requestAnimationFrame(note);
  };
  requestAnimationFrame(note);
}"""
_FIRST_LINE = re.compile(r'\bfrom_line(?:=|":)(\d+)')
# Within this of the end a log goes on following.
_NEAR_END_PX = 40


@pytest.fixture(params=[10, pytest.param(60, marks=pytest.mark.long)])
def printing(stack, request) -> Iterator[tuple[int, int]]:
    """A job that prints for so many seconds and some more; both, the job and the seconds."""
    lines = A_SECOND * (request.param + _SPARE_S)
    script = SCRIPT.format(lines=lines, a_second=A_SECOND)
    job = stack.submit(name="busy", script=script)["id"]
    stack.wait_for(job, "running")
    yield job, request.param
    with stack.api() as api:
        api.post(f"/jobs/{job}/cancel/").raise_for_status()
    stack.wait_for(job)


def use(page: Page) -> None:
    """What a reader does with keys and mouse; each twice, so that it is as before."""
    for _ in range(2):
        page.locator("[data-tool=w]").click()
        page.wait_for_timeout(150)
        page.locator(".lines").focus()
        page.keyboard.press("w")
        page.wait_for_timeout(150)
    for _ in range(4):
        page.keyboard.press("t")
        page.wait_for_timeout(150)


def test_it_is_followed_without_a_gap_answers_and_pauses(printing, visit):
    job, seconds = printing
    page = visit("alice", viewport={"width": 1280, "height": 900})
    page.add_init_script(_INPUTS)
    page.goto(f"/jobs/{job}/logs/")
    says, view = page.locator("[data-says]"), page.locator(".lines")
    expect(says).to_contain_text("following")
    page.evaluate(_ROWS)
    wall, used = Busy(page, "timeTicks"), Busy(page, "threadTicks")
    first, until = page.evaluate("seen.last"), time.monotonic() + seconds
    while time.monotonic() < until:
        use(page)
    assert page.evaluate("seen.wrong") == []
    assert page.evaluate("seen.last") - first > A_SECOND * seconds / 2, "it hardly printed"
    expect(says).not_to_contain_text("not following")

    page.evaluate(_FRAMES)
    view.hover()
    page.mouse.wheel(0, -400)
    expect(says).to_contain_text("not following")
    page.wait_for_timeout(1000)
    check_pause(page.evaluate("seen.frames"))
    expect(page.locator("[data-more]")).to_contain_text("new lines")

    page.locator("[data-more]").click()
    expect(says).not_to_contain_text("not following")
    last = A_SECOND * (seconds + _SPARE_S)
    expect(page.locator(f"#L{last}")).to_contain_text(f"tick {last}")
    # Beside other work the page waits for a processor, which is no slowness of its own.
    waits = wall.seconds() / used.seconds()
    assert inp_ms(page.evaluate("[...seen.took.values()]")) / waits < MOST_INP_MS


def test_after_a_pause_it_goes_on_at_its_end(stack, visit):
    lines, a_second = 40_000, 2_000
    page = keep_time(visit("alice"))
    page.add_init_script(
        """Object.defineProperty(document, "hidden", {get: () => window.isHidden ?? false})"""
    )
    closed: list[WebSocket] = []
    read: list[int] = []

    def note(said: str | bytes) -> None:
        read.extend(int(first) for first in _FIRST_LINE.findall(str(said)))

    def opened(socket: WebSocket) -> None:
        socket.on("close", lambda it: closed.append(it))
        socket.on("framereceived", note)

    page.on("websocket", opened)
    page.on("request", lambda asked: note(asked.url))
    job = stack.submit(name="busy", script=SCRIPT.format(lines=lines, a_second=a_second))["id"]
    try:
        stack.wait_for(job, "running")
        page.goto(f"/jobs/{job}/logs/")
        says = page.locator("[data-says]")
        expect(says).to_contain_text("following")
        hide(page, True)
        # A tab that nobody sees lets its socket go after half a minute.
        pass_time_until(page, 35, lambda: bool(closed))
        page.wait_for_timeout(6_000)
        read.clear()
        hide(page, False)
        expect(page.locator(f"#L{lines}")).to_contain_text(f"tick {lines}")
        expect(says).not_to_contain_text("not following")
        # The twelve thousand lines of between, by pieces of 500, were read twice.
        missed = [first for first in read if read[0] < first < read[0] + 8_000]
        assert len(missed) < 4, missed
    finally:
        with stack.api() as api:
            api.post(f"/jobs/{job}/cancel/").raise_for_status()
        stack.wait_for(job)


def hide(page: Page, is_hidden: bool) -> None:
    """As if another tab was chosen, or this one again."""
    page.evaluate(
        "(now) => { isHidden = now; document.dispatchEvent(new Event('visibilitychange')); }",
        is_hidden,
    )


def inp_ms(took: list[float]) -> float:
    """Interaction to next paint: the longest, without one of every fifty."""
    assert len(took) >= 10, "hardly a key or a press was measured"
    return sorted(took, reverse=True)[len(took) // 50]


class Busy:
    """How long a page's main thread is busy, by a clock of the wall or by its own."""

    def __init__(self, page: Page, clock: str) -> None:
        self._client = page.context.new_cdp_session(page)
        self._client.send("Performance.enable", {"timeDomain": clock})

    def seconds(self) -> float:
        """Since it was made."""
        told = self._client.send("Performance.getMetrics")["metrics"]
        return next(each["value"] for each in told if each["name"] == "TaskDuration")


def check_pause(frames: list[tuple[float, bool, float]]) -> None:
    """At most one frame with the view moved up is still followed, and nothing moves it back."""
    moved = next(n for n, (left, _, _) in enumerate(frames) if left > _NEAR_END_PX)
    assert moved, "the view was never at the end"
    assert not any(follows for _, follows, _ in frames[moved + 1 :])
    # A wheel may take several frames; from its end on the view stays where it is.
    resting = min(top for _, _, top in frames[moved:])
    at = next(n for n, (_, _, top) in enumerate(frames) if n >= moved and top == resting)
    assert {top for _, _, top in frames[at:]} == {resting}
