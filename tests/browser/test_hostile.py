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
# A narrow page grows; charts shrink only when the browser says so.
WIDTHS = (390, 1280)
# Points of a chart, and a panel that has its looks from the page beside which it stands.
NO_PAGES = ("jobs:series", "jobs:glance")
# What is wider than the screen; tables that have to be scrolled for a name; names that take more
# than two lines; texts that take more lines than the width of their place makes them take; and
# marks that nothing keeps within the lines they stand in.
_BROKEN = """() => {
  const found = [], main = document.querySelector('main') ?? document.body;
  if (document.documentElement.scrollWidth > innerWidth) found.push('wider than the screen');
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walk.nextNode(); text; text = walk.nextNode()) {
    let place = text.parentElement;
    const isElsewhere = place.closest('pre, option, textarea, svg, script');
    if (!text.data.includes('alert(1)') || isElsewhere || !place.checkVisibility()) continue;
    const name = place.closest('bdi.long');
    const high = name && name.offsetHeight / parseFloat(getComputedStyle(name).lineHeight);
    const isWhole = innerWidth > 640 && name?.closest('h1');
    if (high > 2.1 && !isWhole) found.push(`${high} lines: ${name.outerHTML}`);
    const cell = place.closest('.tw td, .tw th');
    const table = cell?.closest('.tw');
    if (table && table.scrollWidth > table.clientWidth && cell.offsetWidth > 440)
      found.push(`${cell.offsetWidth} wide: ${cell.outerHTML}`);
    if (/[\\u0300-\\u036f\\u0489]{9}/.test(text.data)) {
      let keeps = place;
      while (keeps && keeps !== main && getComputedStyle(keeps).overflowY === 'visible')
        keeps = keeps.parentElement;
      if (!keeps || keeps === main) found.push(`marks leave ${place.outerHTML}`);
    }
    if (name) continue;
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


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_names_break_no_page(chromium, live_server, people, things, root, kind):
    renamed = rename_everything(HOSTILE[kind])
    assert "Job.name" in renamed
    context = chromium.new_context(base_url=live_server.url)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    said, broken = [], []
    page.on("dialog", lambda dialog: (said.append(page.url), dialog.dismiss()))
    page.on("pageerror", lambda error: said.append(f"{page.url}: {error}"))
    sign_in(page, root.username, PASSWORD)
    for row in PAGES:
        if row.statuses["root"] != 200 or row.route in NO_PAGES:
            continue
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            if width == WIDTHS[0]:
                page.goto(address(row, things))
            broken += [f"{row.route}, {width}: {one}" for one in page.evaluate(_BROKEN)]
    context.close()
    # One that still answered when the server goes could not close its connection any more.
    for thread in threading.enumerate():
        if "process_request_thread" in thread.name:
            thread.join(10)
    assert (said, broken) == ([], [])
