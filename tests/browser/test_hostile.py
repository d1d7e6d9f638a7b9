"""Whatever people call things, in a browser: no script runs and no layout breaks."""

from __future__ import annotations

import os
import threading

import pytest

from tests.browser.conftest import PATIENCE_MS, sign_in
from tests.factories import PASSWORD
from tests.pages.test_budgets import PAGES
from tests.pages.test_hostile import HOSTILE, rename_everything
from tests.pages.test_matrix import address, people, things

# The browser's driver runs a loop in this thread, also while the database is emptied at the end;
# nothing here awaits it.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")

__all__ = ["people", "things"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.long, pytest.mark.timeout(900)]
# Names that take more than one line beside those that the width of their place makes them take.
_BROKEN = """() => {
  const found = [], where = document.querySelector('main') ?? document.body;
  const walk = document.createTreeWalker(where, NodeFilter.SHOW_TEXT);
  for (let text = walk.nextNode(); text; text = walk.nextNode()) {
    let place = text.parentElement;
    if (!text.data.includes('alert(1)') || place.closest('pre, option')) continue;
    while (getComputedStyle(place).display.startsWith('inline')) place = place.parentElement;
    const range = document.createRange();
    range.selectNodeContents(text);
    const boxes = [...range.getClientRects()];
    const lines = new Set(boxes.map((box) => Math.round(box.top))).size;
    const wide = boxes.reduce((sum, box) => sum + box.width, 0);
    // Lines end where words do, so in a narrow place a third of them stays empty.
    if (lines > 1 + Math.ceil(1.5 * wide / Math.max(1, place.clientWidth)))
      found.push(`${lines} lines, ${place.clientWidth} wide: ${place.outerHTML}`);
  }
  return found;
}"""


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("kind", ["markup", "family", "lines"])
def test_hostile_names_break_no_page(chromium, live_server, people, things, root, kind, width):
    renamed = rename_everything(HOSTILE[kind])
    assert "Job.name" in renamed
    context = chromium.new_context(
        base_url=live_server.url, viewport={"width": width, "height": 900}
    )
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    said, broken = [], []
    page.on("dialog", lambda dialog: (said.append(page.url), dialog.dismiss()))
    page.on("pageerror", lambda error: said.append(f"{page.url}: {error}"))
    sign_in(page, root.username, PASSWORD)
    for row in PAGES:
        if row.statuses["root"] != 200 or row.route in ("jobs:series", "search"):
            continue
        page.goto(address(row, things))
        if page.evaluate("document.documentElement.scrollWidth") > width:
            broken.append(f"{row.route} is wider than the screen")
        broken += [f"{row.route}: {place}" for place in page.evaluate(_BROKEN)]
    context.close()
    # One that still answered when the server goes could not close its connection any more.
    for thread in threading.enumerate():
        if "process_request_thread" in thread.name:
            thread.join(10)
    assert (said, broken) == ([], [])
