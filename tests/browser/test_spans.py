"""How long something takes or is ago: a page that stays open goes on in the words of the server."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from portal.templatetags.moments import ago, since
from scheduler.states import span_words
from tests.browser.conftest import PATIENCE_MS

# As in test_closing.py.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

NOW = datetime(2026, 11, 20, 14, 32, 8, tzinfo=UTC)
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
# Right before, at and after each of these another unit begins, or the second one is dropped.
_EDGES = (
    *(_MINUTE, 2 * _MINUTE, 10 * _MINUTE, 11 * _MINUTE, _HOUR, _HOUR + _MINUTE, 2 * _HOUR),
    *(23 * _HOUR, _DAY, _DAY + _HOUR, 2 * _DAY, 2 * _DAY + _HOUR, 3 * _DAY, 30 * _DAY, 400 * _DAY),
)
SPANS = sorted(
    {0, 1, 9, 125, 3_599, 33_120, 190_000, 7_654_321}
    | {edge + step for edge in _EDGES for step in (-1, 0, 1, 59)}
)
# What is not over yet, and what a clock that is ahead says.
AHEAD = -90
# Without their words: what is read afterwards the script has written.
INSERT = """(html) => {
  document.querySelector("main").insertAdjacentHTML("beforeend", `<p id="spans">${html}</p>`);
  for (const time of document.querySelectorAll("#spans time")) time.textContent = "";
}"""


def test_pages_go_on_in_the_words_they_began_with(chromium, live_server):
    moments = [NOW - timedelta(seconds=span) for span in (AHEAD, *SPANS)]
    spans = [span_words(span) for span in (AHEAD, *SPANS)]
    assert len(set(spans)) > 30 and {"0 s", "9 h 12 min", "400 d"} <= set(spans)
    context = chromium.new_context(base_url=live_server.url)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    # Its timers go on, its date does not.
    page.clock.set_fixed_time(NOW)
    page.goto("/accounts/login/")
    page.evaluate(INSERT, "".join(tag(at, NOW) for at in moments for tag in (since, ago)))
    told = page.locator("#spans time")
    expect(told.first).not_to_be_empty()
    expect(told).to_have_text([words for span in spans for words in (span, f"{span} ago")])
    context.close()
    # One that still answered when the server goes could not close its connection any more.
    for thread in threading.enumerate():
        if "process_request_thread" in thread.name:
            thread.join(10)
