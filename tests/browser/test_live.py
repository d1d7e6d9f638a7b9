"""The same rows for all; updates disturb nobody; a lost socket is said."""

from __future__ import annotations

import itertools
import re

import pytest
from playwright.sync_api import Locator, Route, expect

from tests.browser.conftest import Door, Held, expect_live
from tests.browser.passing import keep_time, pass_time, pass_time_until

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]


@pytest.fixture
def jobs(stack):
    """Three that run; cancelled in the end."""
    made = [stack.submit(name=f"watched-{n}", script="sleep 600")["id"] for n in range(3)]
    for job in made:
        stack.wait_for(job, "running")
    yield made
    for job in made:
        cancel(stack, job)
        stack.wait_for(job)


def cancel(stack, job: int) -> None:
    with stack.api() as api:
        api.post(f"/jobs/{job}/cancel/")


def rows(page) -> list[str]:
    return page.locator("#job-rows tbody .jn").evaluate_all("links => links.map(a => a.href)")


def changed(page, region: str) -> Locator:
    return page.locator(f'[data-changed="{region}"]')


def test_an_address_shows_everybody_the_same_rows_and_a_marked_one_is_left_alone(
    stack, visit, jobs
):
    page = visit("alice")
    page.goto("/jobs/")
    field = page.get_by_label("Filter jobs")
    field.fill("watched state:running")
    field.press("Enter")
    page.wait_for_url(re.compile(r"q=watched"))
    seen = rows(page)
    assert [int(one.rstrip("/").rsplit("/", 1)[1]) for one in seen] == jobs[::-1]
    page.reload()
    assert rows(page) == seen
    other = visit("alice")
    other.goto(page.url)
    assert rows(other) == seen

    mark = page.get_by_label(f"Mark #{jobs[1]}")
    mark.focus()
    cancel(stack, jobs[0])
    expect(changed(page, "job-rows")).to_be_visible()
    expect(mark).to_be_focused()
    assert rows(page) == seen
    changed(page, "job-rows").get_by_role("button").click()
    expect(page.locator("#job-rows tbody .jn")).to_have_count(2)


def test_what_one_reads_stays_and_a_page_without_its_socket_says_so(stack, visit, jobs):
    page = keep_time(visit("alice"))
    door = Door(page)
    page.goto(f"/jobs/{jobs[1]}/")
    chip, head, live = (page.locator(name) for name in ("#live-chip", "#job-head", "#job-live"))
    expect_live(chip)
    page.locator("#cancel-menu summary").click()
    # It begins in one region and ends in another.
    live.locator("dt").first.evaluate(
        "end => getSelection().setBaseAndExtent(document.querySelector('h1'), 0, end, 1)"
    )
    cancel(stack, jobs[1])
    # It runs until its node has heard of it. The mark that is pressed asks once.
    stack.wait_for(jobs[1])
    for region in ("job-head", "job-live"):
        expect(changed(page, region)).to_be_visible()
    expect(page.locator("#cancel-menu[open]")).to_be_visible()
    assert page.evaluate("getSelection().toString()").strip()
    expect(head).to_contain_text("running")
    changed(page, "job-head").get_by_role("button").click()
    expect(head).to_contain_text("cancelled")

    page.goto(f"/jobs/{jobs[2]}/")
    expect_live(chip)
    door.shut()
    pass_time_until(page, 10, lambda: "Live paused" in chip.inner_text())
    cancel(stack, jobs[2])
    stack.wait_for(jobs[2])
    # Every five seconds, and from the socket's return on at once.
    pass_time_until(page, 10, lambda: "cancelled" in head.inner_text())
    door.open()
    # A page that was long alone asks twice a minute.
    pass_time_until(page, 40, lambda: chip.inner_text() == "Live")
    expect_live(chip)
    fresh = visit("alice")
    fresh.goto(page.url)
    told = fresh.locator("main .pill").all_text_contents()
    assert told
    expect(page.locator("main .pill")).to_have_text(told)


def test_a_screen_reader_hears_what_others_see_change(stack, visit, jobs):
    page = keep_time(visit("alice"))
    door = Door(page)
    page.goto(f"/jobs/{jobs[0]}/")
    expect_live(page.locator("#live-chip"))
    page.evaluate(
        """() => {
            window.heard = [];
            new MutationObserver(() => window.heard.push([Date.now(), window.tells.textContent]))
                .observe(window.tells, { childList: true });
        }"""
    )
    door.shut()
    tells = page.locator("#tells")
    pass_time_until(page, 20, lambda: tells.text_content() == "Live paused, running")
    cancel(stack, jobs[0])
    stack.wait_for(jobs[0])
    pass_time_until(page, 20, lambda: tells.text_content() == "Live paused, cancelled")
    door.open()
    pass_time_until(page, 50, lambda: tells.text_content() == "Live, cancelled")
    heard = page.evaluate("window.heard")
    times = [at for at, _ in heard]
    assert len(times) >= 3
    assert all(after - at > 9_000 for at, after in itertools.pairwise(times)), heard


def test_who_wants_no_live_updates_has_none_until_asking(stack, visit, jobs):
    page = keep_time(visit("alice"))
    sockets: list[str] = []
    page.on("websocket", lambda socket: sockets.append(socket.url))
    page.goto("/settings/profile/")
    page.get_by_role("button", name="By hand").click()
    sockets.clear()
    page.goto("/jobs/?q=watched+state:running")
    chip = page.locator("#live-chip")
    expect(chip).to_contain_text("Updates off — refreshed")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    cancel(stack, jobs[0])
    stack.wait_for(jobs[0])
    # Longer than any timer of the page, the minute's too.
    pass_time(page, 65)
    assert (len(rows(page)), asked, sockets) == (3, [], [])
    chip.click()
    expect(page.locator("#job-rows tbody .jn")).to_have_count(2)
    # A row is marked by its key, and is left alone from then on: rows that were on their way then,
    # too, and those make nothing fresh.
    held = Held(page, "**/*part=rows*")
    chip.click()
    held.wait()
    page.keyboard.press("j")
    page.keyboard.press("x")
    mark = page.get_by_label(f"Mark #{jobs[2]}")
    expect(mark).to_be_checked()
    expect(page.locator(".htmx-request")).to_have_count(1)
    said = chip.text_content()
    page.clock.run_for(2_000)
    held.release()
    expect(changed(page, "job-rows")).to_be_visible()
    assert chip.text_content() == said
    chip.click()
    expect(changed(page, "job-rows")).to_be_visible()
    expect(mark).to_be_checked()


def test_how_fresh_a_page_is_says_the_last_answer_that_came(visit, jobs):
    page = keep_time(visit("alice", excused=["net::ERR_FAILED", "htmx:"]))
    door = Door(page)
    page.goto(f"/jobs/{jobs[0]}/")
    chip = page.locator("#live-chip")
    expect_live(chip)
    door.shut()
    paused = re.compile(r"Live paused — refreshed \d\d:\d\d:\d\d UTC")
    pass_time_until(page, 10, lambda: bool(paused.search(chip.inner_text())))
    asked: list[str] = []

    def refuse(route: Route) -> None:
        asked.append(route.request.url)
        route.abort()

    page.route(re.compile(r"[?&]part=|/progress/$"), refuse)
    # Answers that are on their way come yet.
    pass_time(page, 3)
    said = chip.text_content()
    asked.clear()
    pass_time(page, 12)
    assert len(asked) > 2 and chip.text_content() == said
    page.unroute_all()
    pass_time_until(page, 10, lambda: chip.text_content() != said)


def test_a_socket_that_is_back_calls_nothing_live_while_parts_fail(visit, jobs):
    page = keep_time(visit("alice", excused=["503", "Failed to load", "htmx:"]))
    door = Door(page)
    page.goto(f"/jobs/{jobs[0]}/")
    chip = page.locator("#live-chip")
    expect_live(chip)
    page.route(re.compile(r"[?&]part="), lambda route: route.fulfill(status=503, body="not now"))
    door.shut()
    pass_time_until(page, 10, lambda: "Live paused" in chip.inner_text())
    pass_time(page, 12)
    with page.expect_websocket():
        chip.evaluate(
            """chip => new MutationObserver(() => (window.said ??= []).push(chip.textContent))
                .observe(chip, { childList: true })"""
        )
        door.open()
        pass_time(page, 40)
    assert "Live" not in (page.evaluate("window.said") or [])
    page.unroute_all()
    pass_time_until(page, 40, lambda: chip.inner_text() == "Live")


def test_a_page_that_would_load_again_asks_who_is_busy_on_it(stack, visit, jobs):
    """As when a job starts that its reader was about to cancel."""
    page = keep_time(visit("alice"))

    def reload(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, headers=answer.headers | {"HX-Refresh": "true"})

    page.goto(f"/jobs/{jobs[1]}/")
    expect_live(page.locator("#live-chip"))
    page.locator("#cancel-menu summary").click()
    page.evaluate("window.isSame = true")
    page.route(re.compile(r"[?&]part=live"), reload)
    pass_time_until(page, 15, lambda: changed(page, "job-live").is_visible())
    expect(page.locator("#cancel-menu[open]")).to_be_visible()
    assert page.evaluate("window.isSame")
    page.unroute_all()
    with page.expect_navigation():
        page.route(re.compile(r"[?&]part=live"), reload, times=1)
        changed(page, "job-live").get_by_role("button").click()


def test_a_form_that_was_stopped_on_its_way_can_be_sent_again(visit, jobs):
    page = keep_time(visit("alice"))
    page.goto("/settings/profile/")
    button = page.get_by_role("button", name="Live", exact=True)
    sent: list[Route] = []

    def hold(route: Route) -> None:
        if route.request.method == "POST":
            sent.append(route)
        else:
            route.continue_()

    page.route("**/*", hold)
    # All at once: while a page is on its way to another one it cannot be asked.
    with page.expect_event("requestfailed"):
        button.evaluate(
            """button => {
                for (const atMs of [0, 300]) setTimeout(() => button.click(), atMs);
                setTimeout(() => window.stop(), 1000);
            }"""
        )
    # Until then a slow answer is as likely as none.
    page.clock.run_for(8_000)
    button.evaluate("button => button.click()")
    page.wait_for_timeout(500)
    assert len(sent) == 1
    page.clock.run_for(8_000)
    with page.expect_request(lambda asked: asked.method == "POST", timeout=10_000):
        button.evaluate("button => { setTimeout(() => button.click()) }")


def test_a_table_that_keys_scroll_keeps_the_focus(stack, visit, jobs):
    page = visit("alice")
    page.goto("/jobs/?q=watched+state:running")
    expect_live(page.locator("#live-chip"))
    expect(page.locator("#job-rows tbody .jn")).to_have_count(3)
    # As page.js does it where the table is wider than the screen.
    box = page.locator("#job-rows .tw")
    box.evaluate("box => { box.tabIndex = 0; box.focus(); }")
    cancel(stack, jobs[2])
    expect(page.locator("#job-rows tbody .jn")).to_have_count(2)
    expect(box).to_be_focused()
