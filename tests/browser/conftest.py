"""A headless Chromium that notices everything a page should not do."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Locator,
    Page,
    Playwright,
    Route,
    WebSocketRoute,
    expect,
    sync_playwright,
)

from tests.servers import LiveStack

ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# How long anything on a page may take. What is there is found at once: only a busy machine
# needs all of it, and how fast pages are is measured elsewhere.
PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)
# What a theme changes; all else that axe asks is the same in both.
OF_COLOURS = ("color-contrast", "link-in-text-block")
AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text(encoding="utf-8")


def find_chromium() -> str | None:
    """Debian's Chromium, or whatever stands in for it."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((found for found in map(shutil.which, names) if found), None)


def launch(playwright: Playwright) -> Browser:
    """One headless browser."""
    return playwright.chromium.launch(executable_path=find_chromium(), args=list(ARGUMENTS))


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    if find_chromium() is None:
        pytest.skip("Chromium is missing; sudo apt-get install chromium")
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


class Witness:
    """Complaints of one context: console errors, exceptions, requests to any but these hosts.

    `excused`: words of console errors that are meant to be.
    """

    def __init__(self, context: BrowserContext, *hosts: str, excused: Sequence[str] = ()) -> None:
        self.complaints: list[str] = []
        self.hosts, self.excused = hosts, excused
        context.on("console", self._console)
        context.on("weberror", lambda error: self.complaints.append(f"exception: {error.error}"))
        context.on("request", self._request)

    def _console(self, message) -> None:
        if any(word in message.text for word in self.excused):
            return
        if message.type in ("error", "warning"):
            self.complaints.append(f"console {message.type}: {message.text} {message.location}")

    def _request(self, request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.netloc not in self.hosts:
            self.complaints.append(f"asked another host: {request.url}")


@pytest.fixture
def job(stack: LiveStack) -> Iterator[int]:
    """The number of one that runs and says nothing; cancelled in the end."""
    made = stack.submit(name="calm-run", script="sleep 600")["id"]
    stack.wait_for(made, "running")
    yield made
    cancel(stack, made)


def cancel(stack: LiveStack, job: int) -> None:
    """And wait until it is over."""
    with stack.api() as api:
        api.post(f"/jobs/{job}/cancel/")
    stack.wait_for(job)


@pytest.fixture
def visit(chromium: Browser, stack: LiveStack) -> Iterator:
    """`visit("alice", **options of the context)`: a page of hers, signed in.

    At the end of the test nothing may have complained.
    """
    opened: list[tuple[BrowserContext, Witness]] = []

    def open_page(username: str = "", *, excused: Sequence[str] = (), **options) -> Page:
        # Not that of the machine, by which pages would say their times.
        usual = {"base_url": stack.address, "timezone_id": "UTC"}
        context = chromium.new_context(**{**usual, **options})
        context.set_default_timeout(PATIENCE_MS)
        witness = Witness(context, urlsplit(stack.address).netloc, excused=excused)
        opened.append((context, witness))
        page = context.new_page()
        if username:
            sign_in(page, username, stack.password(username))
        return page

    yield open_page
    complaints = [each for _, witness in opened for each in witness.complaints]
    for context, _ in opened:
        context.close()
    assert not complaints


def sign_in(page: Page, username: str, password: str) -> None:
    """Through the form, as a person does."""
    page.goto("/accounts/login/")
    page.get_by_label("User name or email").fill(username)
    page.get_by_label("Password", exact=True).fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/")


def expect_live(chip: Locator) -> None:
    """The word is there from the start, but not to be seen before the socket is open."""
    expect(chip).to_be_visible()
    expect(chip).to_have_text("Live")


class Held:
    """Holds back requests until they are released."""

    def __init__(self, page: Page, pattern: str) -> None:
        self._page, self._pattern = page, pattern
        self._routes: list[Route] = []
        self._is_open = False
        page.route(pattern, self._came)

    def _came(self, route: Route) -> None:
        if self._is_open:
            route.continue_()
        else:
            self._routes.append(route)

    def wait(self) -> None:
        """Until one is held, which has to be within PATIENCE_MS."""
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while not self._routes:
            assert time.monotonic() < deadline, f"nothing asked for {self._pattern}"
            self._page.wait_for_timeout(50)

    def release(self) -> None:
        """What was held, and all that comes."""
        self._is_open = True
        for route in self._routes:
            route.continue_()


class Door:
    """Where the live socket of a page goes through: it can be shut, and opened again.

    To be made before the page goes anywhere.
    """

    def __init__(self, page: Page) -> None:
        self.is_shut = False
        self._last: WebSocketRoute | None = None
        page.route_web_socket(re.compile(r"/ws/$"), self._came)

    def _came(self, socket: WebSocketRoute) -> None:
        if self.is_shut:
            socket.close()
        else:
            socket.connect_to_server()
            self._last = socket

    def shut(self) -> None:
        """Take the socket away; whoever comes is turned away until `open`."""
        self.is_shut = True
        assert self._last is not None, "the page has opened no socket"
        self._last.close()

    def open(self) -> None:
        """Let the next one through."""
        self.is_shut = False


def accessibility_breaches(page: Page, rules: Sequence[str] = ()) -> list[str]:
    """What axe finds on the page, by these rules or by all of its own; the context must bypass the
    page's own content policy.
    """
    # A page that is looked at again, wider or darker, has its tools already.
    if not page.evaluate("'axe' in window"):
        # Of text over a gradient it says nothing; the shades at the edges of tables lie below none.
        page.add_style_tag(content=".tw { background: none !important }")
        page.evaluate(AXE)
    # What the page does after a change of width it does in the next frame.
    page.evaluate("() => new Promise(requestAnimationFrame)")
    # Colours on their way from one theme to the other are no colours of either. What is moved by
    # scrolling never ends by itself.
    page.evaluate(
        """() => Promise.allSettled(document.getAnimations()
            .filter(one => one.timeline === document.timeline
                && one.effect.getComputedTiming().endTime !== Infinity)
            .map(one => one.finished))"""
    )
    options: dict[str, object] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = {"type": "rule", "values": list(rules)}
    found = page.evaluate(
        """async (options) => (await axe.run(document, options)).violations
            .map(v => v.id + ": " + v.nodes.slice(0, 3).map(n => n.target.join(" ") + " " +
                (n.any[0] ? n.any[0].message : "")).join(" | "))""",
        options,
    )
    return [f"{page.url} {breach}" for breach in found]
