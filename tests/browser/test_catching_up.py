"""What failed, came late or was told by nobody is caught up on; nothing of a reader's is lost."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Route, WebSocket, expect

from tests.browser.conftest import Held, cancel, expect_live
from tests.browser.passing import keep_time, pass_time, pass_time_until

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
FAILS = ("503", "Failed to load", "ERR_INTERNET_DISCONNECTED", "afterRequest", "sendError")


class Fails:
    """Answers so many requests for a part with a 503."""

    def __init__(self, page: Page, pattern: str, times: int) -> None:
        self.left = times
        page.route(pattern, self._answer)

    def _answer(self, route: Route) -> None:
        if self.left > 0:
            self.left -= 1
            route.fulfill(status=503, body="not now")
        else:
            route.continue_()


def test_a_part_that_fails_is_asked_for_again_and_that_is_said(stack, visit, job):
    page = keep_time(visit("alice", excused=FAILS))
    page.goto(f"/jobs/{job}/")
    chip, head = page.locator("#live-chip"), page.locator("#job-head")
    expect_live(chip)
    fails = Fails(page, "**/*part=head*", 4)
    cancel(stack, job)
    pass_time_until(page, 15, lambda: "Live paused" in chip.inner_text())
    pass_time_until(page, 30, lambda: "cancelled" in head.inner_text())
    assert fails.left == 0
    # The rest of the page follows; then all is well again.
    expect(chip).to_have_text("Live")


def test_a_line_that_was_gone_says_so_and_is_caught_up_on(stack, visit, job):
    page = visit("alice", excused=FAILS)
    page.goto(f"/jobs/{job}/")
    chip, head = page.locator("#live-chip"), page.locator("#job-head")
    expect_live(chip)
    page.context.set_offline(True)
    expect(chip).to_contain_text("Live paused")
    cancel(stack, job)
    expect(head).to_contain_text("running")
    page.context.set_offline(False)
    expect(head).to_contain_text("cancelled")
    expect(chip).to_have_text("Live")


def test_a_tick_set_while_rows_are_on_their_way_stays(stack, visit, job):
    page = visit("alice")
    page.goto("/jobs/?q=calm-run")
    expect_live(page.locator("#live-chip"))
    held = Held(page, "**/*part=rows*")
    page.locator("#live-chip").click()
    held.wait()
    mark = page.get_by_label(f"Mark #{job}", exact=True)
    mark.check()
    page.locator("h1").click()
    held.release()
    changed = page.locator('[data-changed="job-rows"]')
    expect(changed).to_be_visible()
    expect(mark).to_be_checked()
    # Who asks for it gets it.
    changed.get_by_role("button").click()
    expect(mark).not_to_be_checked()


def test_the_list_of_sessions_follows_them(stack, visit):
    page = visit("alice")
    page.goto("/sessions/")
    expect_live(page.locator("#live-chip"))
    number = stack.submit(name="followed", session="shell")["id"]
    try:
        card = page.locator(f"#session-{number}")
        expect(card).to_contain_text("running")
        cancel(stack, number)
        expect(card).to_have_count(0)
    finally:
        cancel(stack, number)


def test_a_tab_that_nobody_sees_asks_for_nothing(stack, visit, job):
    page = keep_time(visit("alice"))
    page.add_init_script(
        """Object.defineProperty(document, "hidden", {get: () => window.isHidden ?? false})"""
    )
    page.goto(f"/jobs/{job}/")
    expect_live(page.locator("#live-chip"))
    page.wait_for_load_state("networkidle")
    page.evaluate("window.isHidden = true")
    # What was due just then.
    pass_time(page, 1)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    # Longer than any of its regions waits.
    pass_time(page, 65)
    # Readings are hints; what time makes old is not asked for.
    assert [one for one in asked if "part=head" in one] == []
    page.evaluate("window.isHidden = false")
    with page.expect_request("**/*part=head*"):
        pass


def test_a_tab_that_nobody_sees_takes_no_socket(stack, visit, job):
    """Who opens many at once would have no seat left for the one that is looked at."""
    page = keep_time(visit("alice"))
    page.add_init_script(
        """window.isHidden = true;
        Object.defineProperty(document, "hidden", {get: () => window.isHidden})"""
    )
    sockets: list[WebSocket] = []
    page.on("websocket", lambda socket: sockets.append(socket))

    def turn(is_hidden: str) -> None:
        page.evaluate(
            f"isHidden = {is_hidden}; document.dispatchEvent(new Event('visibilitychange'))"
        )

    page.goto(f"/jobs/{job}/logs/")
    pass_time(page, 40)
    assert sockets == []
    for number in (1, 2):
        with page.expect_websocket():
            turn("false")
        expect_live(page.locator("#live-chip"))
        turn("true")
        pass_time(page, 33)
        assert [socket.is_closed() for socket in sockets] == [True] * number


def test_parts_that_fail_for_long_are_asked_for_ever_more_rarely(stack, visit, job):
    page = keep_time(visit("alice", excused=FAILS))
    page.add_init_script(
        """Object.defineProperty(document, "hidden", {get: () => window.isHidden ?? false})"""
    )
    page.goto(f"/jobs/{job}/")
    expect_live(page.locator("#live-chip"))
    Fails(page, "**/*part=head*", 1_000)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))

    def heads() -> int:
        return sum("part=head" in one for one in asked)

    page.locator("#live-chip").click()
    pass_time(page, 30)
    # After 1, 1, 2, 4, 8 and 16 seconds; what it would ask for anyway does not come on top.
    assert 4 <= heads() <= 8
    page.evaluate("window.isHidden = true")
    pass_time(page, 1)
    seen = heads()
    pass_time(page, 35)
    assert heads() == seen
    page.evaluate("window.isHidden = false")
    with page.expect_request("**/*part=head*"):
        pass


def test_a_socket_that_opens_and_closes_at_once_leads_to_polling(stack, visit, job):
    page = keep_time(visit("alice"))
    opened: list[str] = []

    def slam(route) -> None:
        opened.append(route.url)
        route.close(code=1013)

    page.route_web_socket("**/ws/", slam)
    page.goto(f"/jobs/{job}/")
    chip, head = page.locator("#live-chip"), page.locator("#job-head")
    pass_time_until(page, 10, lambda: "Live paused" in chip.inner_text())
    cancel(stack, job)
    pass_time_until(page, 10, lambda: "cancelled" in head.inner_text())
    pass_time(page, 15)
    assert len(opened) < 10
