"""Reports in the browser: all columns on a laptop, figures on a phone, buttons where they were; on
a phone the first column stays, names are whole, and no page is wider than the screen."""

from __future__ import annotations

import os

import pytest
from django.core.management import call_command
from playwright.sync_api import Page

from scheduler.selectors.books.catalogue import REPORTS
from tests.browser.test_closing import open_as

os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
__all__ = ["open_as"]
SLUGS = [slug for slug, report in REPORTS.items() if not report.is_trail]
# How far the table reaches beyond its frame; where the first figure of the first row ends, less
# the frame's own end; where the first button for files begins.
LOOK = """() => {
  const frame = document.querySelector(".tw"), link = document.querySelector(".acts a");
  const figure = document.querySelector(".tw tbody data"), at = link.getBoundingClientRect();
  const end = frame ? frame.getBoundingClientRect().right : 0;
  return {
    over: frame ? frame.scrollWidth - frame.clientWidth : 0,
    beyond: figure ? figure.getBoundingClientRect().right - end : 0,
    place: [Math.round(at.left), Math.round(at.top)],
    rows: document.querySelectorAll(".tw tbody tr").length,
  };
}"""
# With all columns and their table scrolled to its end: how far the page itself scrolls aside, where
# the first column is, how much of the table it takes, and how many names lie on two lines.
KEPT = """() => {
  const frame = document.querySelector(".tw:has(> .pin)");
  if (frame) frame.scrollLeft = frame.scrollWidth;
  const at = frame?.getBoundingClientRect();
  const cell = frame?.querySelector("tbody tr > *").getBoundingClientRect();
  const names = [...document.querySelectorAll(".pin td.one .name")];
  const lines = (one) => one.getClientRects().length;
  return {
    wide: document.documentElement.scrollWidth - innerWidth,
    left: frame ? Math.round(cell.left - at.left) : 0,
    share: frame ? cell.width / at.width : 0,
    moved: frame ? frame.scrollLeft : 0,
    broken: names.filter((one) => lines(one) > 1).length,
  };
}"""


# Of the first picture: its height, its room to the left, the colours of its words and its lines.
DRAWN = """() => {
  const { layout } = document.querySelector("figure.chart[data-drawn] .plot");
  return [[layout.height, layout.margin.l], [layout.font.color, layout.xaxis.gridcolor]];
}"""


def looked_at(page: Page) -> dict[str, dict]:
    found = {}
    for slug in SLUGS:
        page.goto(f"/finance/reports/{slug}/")
        page.wait_for_load_state("load")
        found[slug] = page.evaluate(LOOK)
    return found


def test_reports_fit_and_keep_their_buttons_in_place(root, open_as):
    call_command("seed_demo", by="root", jobs=60, anyway=True)
    for width in (1280, 390):
        page = open_as("root", viewport={"width": width, "height": 900})
        found = looked_at(page)
        assert len([slug for slug, seen in found.items() if seen["rows"]]) >= 8
        assert len({tuple(seen["place"]) for seen in found.values()}) == 1, found
        if width == 1280:
            assert {slug for slug, seen in found.items() if seen["over"] > 0} == set(), found
        else:
            assert {slug for slug, seen in found.items() if seen["beyond"] > 0} == set(), found


def test_on_a_phone_the_first_column_of_a_report_stays_and_names_are_whole(root, open_as):
    call_command("seed_demo", by="root", jobs=60, anyway=True)
    for width in (390, 320):
        page, found = open_as("root", viewport={"width": width, "height": 900}), {}
        for slug in SLUGS:
            page.goto(f"/finance/reports/{slug}/?columns=all")
            page.wait_for_load_state("load")
            found[slug] = page.evaluate(KEPT)
        assert {slug for slug, seen in found.items() if seen["wide"] > 0} == set(), found
        assert {slug for slug, seen in found.items() if seen["left"] or seen["broken"]} == set(), (
            found
        )
        assert {slug for slug, seen in found.items() if seen["share"] > 0.55} == set(), found
        assert len([slug for slug, seen in found.items() if seen["moved"] > 0]) >= 6, found


def test_a_picture_changes_its_colours_and_not_its_size(root, open_as):
    call_command("seed_demo", by="root", jobs=60, anyway=True)
    page = open_as("root")
    page.emulate_media(color_scheme="light")
    page.goto("/finance/reports/quota-use/")
    page.wait_for_selector("figure.chart[data-drawn]")
    size, colours = page.evaluate(DRAWN)
    page.emulate_media(color_scheme="dark")
    others = f"was => ({DRAWN})()[1].every((now, at) => now !== was[at])"
    page.wait_for_function(others, arg=colours)
    assert page.evaluate(DRAWN)[0] == size
    # As all pictures would be that say nothing of their own.
    assert size != [240, 40], size
