"""A long log in a browser: links land on their line, all of it is searched, keys do it all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import APIResponse, Route, expect

from tests.browser.passing import keep_time, pass_time

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

LINES = 100_000
SCRIPT = f"""
echo "::group::set up"; echo ready; echo "::endgroup::"
seq -f 'step=%g loss=1.5' 4 {LINES - 1}
echo 'the End'
sleep 600
"""


@pytest.fixture
def job(stack) -> Iterator[dict[str, Any]]:
    """It prints all its lines at once and stays, until the test is over."""
    job = stack.submit(name="long-log", script=SCRIPT)
    yield job
    with stack.api() as api:
        api.post(f"/jobs/{job['id']}/cancel/").raise_for_status()
    stack.wait_for(job["id"])


def test_a_hundred_thousand_lines(job, visit):
    page = visit("alice")
    page.goto(f"/jobs/{job['id']}/logs/")
    view = page.locator(".lines")
    expect(page.locator(f"#L{LINES}")).to_be_in_viewport()
    expect(page.locator("[data-says]")).to_contain_text("following")

    page.goto(f"/jobs/{job['id']}/logs/?ts=utc#L90000-L90002")
    expect(page.locator("#L90000")).to_be_in_viewport()
    expect(page.locator("#L90000")).to_contain_text("step=90000 ")
    expect(page.locator(".ln.sel")).to_have_count(3)
    expect(page.locator("#L90000")).to_have_attribute("data-at", re.compile(r"^\d\d:\d\d:\d\dZ$"))

    view.press("/")
    page.keyboard.type("=4242")
    page.keyboard.press("Enter")
    # 4242 and 42420 to 42429, counted by the server over lines that are not here.
    expect(page.locator("[data-found]")).to_have_text(re.compile(r"^1 of 11 lines$"))
    expect(page.locator("#L4242")).to_be_in_viewport()
    page.keyboard.press("n")
    expect(page.locator("#L42420.at")).to_be_in_viewport()
    page.keyboard.press("N")
    page.keyboard.press("N")
    expect(page.locator("#L42429.at")).to_be_in_viewport()
    assert "q=%3D4242" in page.url and "ts=utc" in page.url
    expect(page.locator(".hits rect:not(.view)")).to_have_count(2)

    page.keyboard.press("g")
    page.keyboard.press("g")
    head = page.locator("#L1 .fold")
    head.click()
    expect(head).to_have_attribute("aria-expanded", "false")
    expect(page.locator("#L2")).to_be_hidden()
    assert page.locator(".rows > *").count() <= 5000

    page.get_by_role("button", name="Text size").click()
    expect(view).to_have_css("font-size", "16px")
    page.reload()
    expect(view).to_have_css("font-size", "16px")
    assert "size=large" in page.url


@pytest.fixture
def short(stack) -> Iterator[int]:
    """It prints more lines than a page shows at first, and stays until it is cancelled."""
    made = stack.submit(name="short-log", script="seq -f 'line %g' 1200; sleep 600")["id"]
    yield made
    with stack.api() as api:
        api.post(f"/jobs/{made}/cancel/")
    stack.wait_for(made)


def test_an_answer_of_before_takes_nothing_back(stack, short, visit):
    page = visit("alice")
    page.goto(f"/jobs/{short}/logs/")
    says = page.locator("[data-says]")
    expect(page.locator("#L1200")).to_be_in_viewport()
    held: list[tuple[Route, APIResponse]] = []
    page.route("**/logs/lines/*", lambda route: held.append((route, route.fetch())))
    page.locator("[data-tool=gg]").click()
    expect(says).to_contain_text("not following")
    with stack.api() as api:
        api.post(f"/jobs/{short}/cancel/")
    expect(says).to_contain_text("complete")
    [(route, of_before)] = held
    route.fulfill(response=of_before)
    expect(says).to_have_text("lines 1–500 of 1,200 · complete")


def test_a_line_that_is_not_there_is_said_and_the_last_one_shown(short, visit):
    page = visit("alice")
    page.goto(f"/jobs/{short}/logs/")
    expect(page.locator("#L1200")).to_be_in_viewport()
    page.goto(f"/jobs/{short}/logs/#L70000")
    expect(page.locator("#toasts")).to_contain_text("The last line is 1200.")
    expect(page.locator("#L1200.sel")).to_be_in_viewport()


def test_a_link_to_a_line_stays_with_its_attempt(short, visit):
    page = visit("alice", permissions=["clipboard-read", "clipboard-write"])
    own = f"/jobs/{short}/logs/?ts=utc&attempt=1&rank=0#L"

    def copied() -> str:
        page.get_by_role("log").press("y")
        expect(page.get_by_text("Copied.").first).to_be_visible()
        return page.evaluate("navigator.clipboard.readText()").removeprefix(base)

    page.goto(f"/jobs/{short}/logs/?ts=utc")
    base = page.evaluate("location.origin")
    expect(page.locator("#L1200")).to_be_in_viewport()
    # None is chosen, so it is the one at the top.
    first = copied()
    assert first.startswith(own)
    assert 1100 < int(first.removeprefix(own)) < 1200
    page.locator("#L1199 > a").click()
    assert page.url == f"{base}{own}1199"
    page.locator("#L1195 > a").click(modifiers=["Shift"])
    expect(page.locator(".ln.sel")).to_have_count(5)
    assert copied() == f"{own}1199-L1195"
    page.goto(copied())
    expect(page.locator(".ln.sel")).to_have_count(5)
    expect(page.locator("#L1195.sel")).to_be_in_viewport()
    # On the overview, whose address stays its own.
    page.goto(f"/jobs/{short}/?ts=utc")
    number = page.locator("#L1199 > a")
    number.click()
    assert page.url == f"{base}/jobs/{short}/?ts=utc#L1199"
    assert number.evaluate("link => link.href") == f"{base}{own}1199"
    assert copied() == f"{own}1199"


def test_a_long_log_is_crossed_at_the_strip_beside_it(short, visit):
    page = visit("alice")
    page.goto(f"/jobs/{short}/logs/")
    expect(page.locator("#L1200")).to_be_in_viewport()
    strip = page.locator(".hits")
    box = strip.bounding_box()
    strip.click(position={"x": 4, "y": box["height"] / 4})
    expect(page.locator("#L300.at, #L299.at, #L301.at")).to_be_in_viewport()
    expect(page.locator("[data-found]")).to_have_text("")


def test_on_from_the_last_hit_leaves_nothing_unsearched(short, visit):
    page = visit("alice")
    page.goto(f"/jobs/{short}/logs/")
    expect(page.locator("#L1200")).to_be_in_viewport()
    asked: list[Route] = []
    page.route("**/logs/find/*", lambda route: asked.append(route))
    page.locator(".lines").press("/")
    page.keyboard.type("line")
    page.keyboard.press("Enter")
    found = page.locator("[data-found]")
    expect(found).to_contain_text("searching from line 1")
    first = {"lines": [1, 2], "next_line": 3, "note": "", "total_lines": 900}
    asked[0].fulfill(json=first)
    expect(page.locator("#L1.at")).to_be_in_viewport()
    for _ in range(3):
        page.keyboard.press("n")
    expect(found).to_have_text("2 of more than 2 lines")
    # While this was searched the log grew: what came is told by both answers.
    asked[1].fulfill(json={"lines": [2, 1000], "next_line": 0, "note": "", "total_lines": 900})
    expect(found).to_have_text("2 of 3 lines")
    page.keyboard.press("n")
    expect(page.locator("#L1000.at")).to_be_in_viewport()
    froms = [parse_qs(urlsplit(route.request.url).query)["from_line"] for route in asked]
    assert froms == [["1"], ["3"]]


def test_who_renews_by_hand_has_a_log_that_waits(stack, short, visit):
    page = keep_time(visit("alice"))
    page.goto("/settings/profile/")
    page.get_by_role("button", name="By hand").click()
    try:
        page.goto(f"/jobs/{short}/logs/")
        chip = page.locator("#live-chip")
        expect(chip).to_contain_text("Updates off")
        page.wait_for_load_state("networkidle")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        pass_time(page, 65)
        assert asked == []
        with page.expect_request("**/logs/lines/*"):
            chip.click()
    finally:
        page.goto("/settings/profile/")
        page.get_by_role("button", name="Live", exact=True).click()


LONG_LINES = r"""
seq -f 'line %g' 100
awk 'BEGIN {
    for (n = 0; n < 40000; n++) printf "\r%3d%% %080d", n / 400, n
    printf "\r100%% done\n"
}'
seq -f 'tail %g' 20
"""


def test_nothing_is_lost_around_a_bar_longer_than_a_window(stack, visit):
    job = stack.submit(name="long-bar", script=LONG_LINES)["id"]
    stack.wait_for(job)
    page = visit("alice")
    page.goto(f"/jobs/{job}/logs/#L105")
    expect(page.locator("#L105.sel")).to_be_in_viewport()
    view = page.locator(".lines")
    view.press("g")
    view.press("g")
    expect(page.locator("#L1")).to_be_in_viewport()
    view.press("G")
    expect(page.locator("#L121")).to_be_in_viewport()
    # It is too short to be scrolled: what is above comes by itself.
    expect(page.locator("#L101")).to_contain_text("100% done")
    view.evaluate("view => { view.scrollTop = 0 }")
    expect(page.locator(".rows > *")).to_have_count(121)
    ids = page.locator(".rows > *").evaluate_all("rows => rows.map(row => Number(row.id.slice(1)))")
    assert ids == list(range(1, 122))


def test_a_screen_reader_hears_of_a_log_that_runs_but_once(stack, visit):
    script = "for n in $(seq 300); do echo tick $n; sleep 0.05; done; sleep 600"
    job = stack.submit(name="ticking", script=script)["id"]
    try:
        stack.wait_for(job, "running")
        page = visit("alice")
        page.goto(f"/jobs/{job}/logs/")
        says = page.locator("[data-says]")
        expect(says).to_contain_text("following")
        page.evaluate(
            """() => {
                window.heard = [];
                const watch = new MutationObserver((all) => window.heard.push(
                    ...all.map((one) => one.target.textContent)));
                for (const one of document.querySelectorAll(".log [role=status]"))
                    watch.observe(one, { childList: true, characterData: true, subtree: true });
            }"""
        )
        before = says.text_content()
        page.wait_for_timeout(4000)
        assert says.text_content() != before
        page.locator("[data-tool=f]").click()
        expect(page.locator("[data-tells]")).to_have_text("not following")
        assert page.evaluate("window.heard") == ["not following"]
    finally:
        with stack.api() as api:
            api.post(f"/jobs/{job}/cancel/")
        stack.wait_for(job)


def test_a_group_that_was_shut_stays_so_while_its_lines_go_by(stack, visit):
    page = visit("alice")
    lines = "for n in $(seq 1500); do echo t $n; sleep 0.02; done"
    script = f"echo ::group::all; sleep 6; {lines}; sleep 600"
    job = stack.submit(name="grouped", script=script)["id"]
    try:
        stack.wait_for(job, "running")
        page.goto(f"/jobs/{job}/logs/")
        page.locator("#L1 .fold").click()
        expect(page.locator("#L2")).to_have_count(0)
        shown = page.locator(".rows > .ln:not([hidden])")
        expect(shown).to_have_count(1)
        # What shut it opens it, and its lines are there.
        page.locator("#L1 .fold").click()
        expect(page.locator("#L2")).to_be_visible()
        expect(page.locator("#L3")).to_be_visible()
    finally:
        with stack.api() as api:
            api.post(f"/jobs/{job}/cancel/")
        stack.wait_for(job)
