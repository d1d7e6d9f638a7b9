"""Sessions under a name of their own, as an installation of more than one person has them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import PATIENCE_MS, Witness, accessibility_breaches, sign_in
from tests.browser.test_sessions import come_in, end, start_shell, typed

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

# Browsers find whatever ends in .localhost on this machine; both are of one site.
PORTAL, SESSIONS = "portal.yard.localhost", "sessions.yard.localhost"


@pytest.fixture
def apart(make_stack):
    return make_stack(
        TRAINYARD_PUBLIC_URL=f"http://{PORTAL}:{{port}}",
        TRAINYARD_SESSION_ORIGIN=f"http://{SESSIONS}:{{port}}",
        TRAINYARD_ALLOWED_HOSTS=f"localhost,127.0.0.1,{PORTAL},{SESSIONS}",
    )


@pytest.fixture
def pages(apart, chromium: Browser) -> Iterator:
    """Pages of browsers of their own, of which the first is alice's; nothing may complain."""
    port = urlsplit(apart.address).port
    opened: list[tuple[BrowserContext, Witness]] = []

    def open_page(**options) -> Page:
        context = chromium.new_context(base_url=f"http://{PORTAL}:{port}", **options)
        context.set_default_timeout(PATIENCE_MS)
        opened.append((context, Witness(context, f"{PORTAL}:{port}", f"{SESSIONS}:{port}")))
        return context.new_page()

    yield open_page
    for context, _ in opened:
        context.close()
    assert not [each for _, witness in opened for each in witness.complaints]


def test_connect_leads_straight_in_and_a_link_from_elsewhere_asks(apart, pages):
    page = pages()
    sign_in(page, "alice", apart.password("alice"))
    number = start_shell(apart, page)
    for time in ("once", "twice"):
        shell = come_in(page, number)
        assert urlsplit(shell.url).hostname == SESSIONS and "ticket" not in shell.url
        typed(shell, f"echo $((6*7))-{time}")
        expect(shell.locator(".shell-view")).to_contain_text(f"42-{time}")
    # The portal's pages are not there, nor its sign-in.
    host = urlsplit(shell.url).netloc
    with httpx.Client(base_url=apart.address, headers={"Host": host}) as anybody:
        assert anybody.get("/jobs/").status_code == 404
    kept = {cookie["name"] for cookie in page.context.cookies(shell.url)}
    assert kept == {"trainyard_session"}
    ask_first(apart, pages, number)
    end(apart, number)


def ask_first(apart, pages, number: int) -> None:
    """Whoever opens a link by hand, in another browser, is asked before it takes them in."""
    for theme, width in (("light", 1280), ("dark", 390)):
        size = {"width": width, "height": 700}
        other = pages(color_scheme=theme, viewport=size, bypass_csp=True)
        with closing(apart.api()) as api:
            told = api.post(f"/sessions/{number}/ticket/", json={}).raise_for_status().json()
        other.goto(told["url"])
        button = other.get_by_role("button", name="Open the session")
        expect(other.get_by_text(f"Open session {number} in this browser?")).to_be_visible()
        assert not accessibility_breaches(other)
        assert other.evaluate("document.documentElement.scrollWidth <= innerWidth")
        button.click()
        expect(other.locator("#state")).to_have_text("connected")
