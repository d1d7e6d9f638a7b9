"""Finance in the browser: a month closed, an amount corrected by two, its statement exported."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from playwright.sync_api import ConsoleMessage, Page, expect

from accounts.models import User
from scheduler.models import Attempt
from scheduler.states import EndReason
from tests import factories, scenes
from tests.browser.conftest import PATIENCE_MS, accessibility_breaches, sign_in
from tests.browser.keys import by_keys, press
from tests.browser.test_every_page import widths_that_break

# The browser's driver runs a loop in this thread, also while the database is emptied at the end;
# nothing here awaits it.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
# A month that is over whenever this runs.
BEGAN = datetime(2026, 9, 10, 12, tzinfo=UTC)


@pytest.fixture
def books(root: User, alice: User, project) -> User:
    """September: two hours of one GPU at 3.60, by alice; returns a second bookkeeper."""
    cluster = scenes.build_cluster(root, nodes=0)
    node = scenes.add_node(cluster, "n1", 1, now=BEGAN)
    job = scenes.submit(alice, project, now=BEGAN)
    attempt = scenes.start(job, node, now=BEGAN)
    scenes.sync(node, scenes.running(attempt), now=BEGAN)
    scenes.sync(node, scenes.ended(attempt), now=BEGAN + timedelta(hours=2))
    return factories.person("second", is_superuser=True)


@pytest.fixture
def open_as(chromium, live_server) -> Iterator:
    contexts = []

    def open_page(username: str, **options: object) -> Page:
        context = chromium.new_context(base_url=live_server.url, **options)
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        sign_in(page, username, factories.PASSWORD)
        return page

    yield open_page
    for context in contexts:
        context.close()
    # One that still answered when the server goes could not close its connection any more.
    for thread in threading.enumerate():
        if "process_request_thread" in thread.name:
            thread.join(10)


def test_a_month_is_closed_corrected_and_its_statement_exported(books, open_as, tmp_path):
    page = open_as("root")
    keys = by_keys(page.context.new_page())
    keys.goto("/finance/")
    press(keys.get_by_role("link", name="Months", exact=True))
    press(keys.get_by_role("button", name="Close 2026-09"))
    expect(keys.get_by_text("2026-09 is closed as version 1.")).to_be_visible()
    page.goto("/finance/periods/")
    expect(page.locator("#m2026-09")).to_contain_text("7.20")

    page.get_by_role("link", name="Adjustments").click()
    page.get_by_label("Amount").fill("1,50")
    page.get_by_label("Reason").fill("a day lost to cooling")
    page.get_by_role("button", name="Propose").click()
    expect(page.get_by_text("Write a number with a point").first).to_be_visible()
    page.get_by_label("Amount").fill("-1.50")
    page.get_by_role("button", name="Propose").click()
    expect(page.get_by_text("another person has to post it")).to_be_visible()
    expect(page.get_by_role("button", name="Post", exact=True)).to_have_count(0)

    other = open_as("second")
    other.goto("/finance/adjustments/")
    other.get_by_role("button", name="Post", exact=True).click()
    expect(other.get_by_text(re.compile(r"It is posted as entry \d+"))).to_be_visible()

    other.goto("/finance/periods/")
    other.locator("#m2026-09").get_by_role("link", name="Statements").click()
    with other.expect_download() as waiting:
        other.get_by_role("link", name="CSV").click()
    saved = tmp_path / "statement.csv"
    waiting.value.save_as(saved)
    assert "7.2" in saved.read_text("utf-8-sig")
    # What is learnt after the close is put right in a month that is open.
    Attempt.objects.update(end_reason=EndReason.NODE_LOST)
    other.goto("/finance/periods/")
    other.locator("summary", has_text="Correct or reopen").first.click()
    other.get_by_label("What is corrected in 2026-09").fill("the node was lost")
    other.get_by_role("button", name="Post corrections").first.click()
    expect(other.get_by_text("2 corrections of 2026-09 are posted.")).to_be_visible()
    # On paper it is a tagged PDF, which the browser makes of the page: headings, tables, language.
    other.goto("/finance/statements/1/")
    pdf = other.pdf(tagged=True)
    for mark in (b"/StructTreeRoot", b"/Marked true", b"/Lang (en", b"/S /Table", b"/S /H1"):
        assert mark in pdf, mark
    # Who works in the dark prints dark words on white paper all the same.
    other.evaluate("document.documentElement.dataset.bsTheme = 'dark'")
    other.emulate_media(media="print")
    ink = other.evaluate("getComputedStyle(document.querySelector('h1')).color")
    assert ink == "rgb(20, 24, 29)"
    look_at(open_as, "/finance/statements/1/")


def look_at(open_as: Callable[..., Page], address: str) -> None:
    """In both themes nothing is said on the console, axe finds nothing, and it fits all widths."""
    for theme in ("light", "dark"):
        page = open_as("second", color_scheme=theme, bypass_csp=True)
        complaints: list[str] = []
        page.on("console", partial(_note, complaints))
        page.goto(address)
        assert accessibility_breaches(page) == []
        assert widths_that_break(page) == []
        # The server of this test has no sockets.
        assert [one for one in complaints if "/ws/" not in one] == []


def _note(complaints: list[str], said: ConsoleMessage) -> None:
    complaints.append(said.text)
