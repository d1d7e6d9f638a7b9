"""A session from the form to the shell in the browser, typed into and found again."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from scheduler.states import FINAL_JOB_STATES
from tests.browser.conftest import PATIENCE_MS, Witness, accessibility_breaches, sign_in

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]


def number_of(page: Page) -> int:
    """The session's number, in the address of its page."""
    page.wait_for_url(re.compile(r"/sessions/\d+/$"))
    return int(page.url.rstrip("/").rsplit("/", 1)[1])


def end(stack, number: int) -> None:
    with stack.api() as api:
        api.post(f"/jobs/{number}/cancel/")
    stack.wait_for(number, *FINAL_JOB_STATES)


def start_shell(stack, page: Page) -> int:
    """From the sessions' page through the form, pressed twice as by a nervous hand."""
    page.goto("/sessions/")
    page.get_by_role("link", name="New session").first.click()
    expect(page.locator("#summary")).to_contain_text("A session: a shell in the browser.")
    page.get_by_role("button", name="Start session").dblclick()
    number = number_of(page)
    stack.wait_for(number, "running")
    return number


@pytest.mark.parametrize("has_script", [True, False], ids=["script", "no-script"])
def test_the_form_shows_what_its_kind_has(stack, visit, has_script):
    page = visit("alice", java_script_enabled=has_script)
    page.goto("/jobs/new/")
    command, idle = page.get_by_label("Command"), page.get_by_label("Stop when idle for")
    expect(command).to_be_visible()
    expect(idle).to_be_hidden()
    expect(page.get_by_role("heading", name="New job", exact=True)).to_be_visible()
    page.get_by_label("Session: Jupyter Lab").check()
    expect(page.get_by_role("heading", name="New session", exact=True)).to_be_visible()
    expect(command).to_be_hidden()
    expect(idle).to_be_visible()
    expect(page.get_by_role("button", name="Start session")).to_be_visible()
    expect(page.get_by_role("button", name="Submit job")).to_be_hidden()
    page.get_by_label("Session: a program of mine").check()
    expect(page.get_by_text("$TRAINYARD_SESSION_SOCKET")).to_be_visible()
    # What was typed does not vanish with the kind it was meant for.
    command.fill("python serve.py")
    page.get_by_label("Session: a shell").check()
    expect(command).to_be_visible()
    if not has_script:
        page.get_by_role("button", name="Check only").click()
    expect(page.locator("#summary")).to_contain_text("starts its own program")


@pytest.fixture
def own(make_stack, chromium: Browser) -> Iterator:
    """A stack of the test's own, and pages of alice's there; nothing may have complained."""
    stack = make_stack()
    contexts: list[BrowserContext] = []
    witnesses: list[Witness] = []

    def open_page(**options) -> Page:
        context = chromium.new_context(base_url=stack.address, **options)
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        witnesses.append(Witness(context, urlsplit(stack.address).netloc))
        page = context.new_page()
        sign_in(page, "alice", stack.password("alice"))
        return page

    yield stack, open_page
    complaints = [each for witness in witnesses for each in witness.complaints]
    for context in contexts:
        context.close()
    assert not complaints


def come_in(page: Page, number: int) -> Page:
    """Through the button, into the window that it opens."""
    page.goto(f"/sessions/{number}/")
    with page.expect_popup() as opened:
        page.get_by_role("button", name="Connect").click()
    shell: Page = opened.value
    expect(shell.locator("#state")).to_have_text("connected")
    return shell


def typed(shell: Page, line: str) -> None:
    shell.keyboard.type(line)
    shell.keyboard.press("Enter")


def test_a_shell_is_typed_into_resized_lost_and_found_again(own):
    stack, open_page = own
    page = open_page(viewport={"width": 1280, "height": 800})
    number = start_shell(stack, page)
    with stack.api() as api:
        assert len(api.get("/sessions/").json()["items"]) == 1  # however often it was pressed
    shell = come_in(page, number)
    screen = shell.locator(".shell-view")
    typed(shell, "echo $((6*7))-$TRAINYARD_JOB_ID")
    expect(screen).to_contain_text(f"42-{number}")
    # Colours, and keys that are no letters.
    typed(shell, r"printf '\033[31mred\033[0m\n'")
    expect(shell.locator(".t-fg1", has_text="red")).to_be_visible()
    shell.keyboard.type("echo wrongx")
    shell.keyboard.press("Backspace")
    typed(shell, "-then-right")
    expect(screen).to_contain_text("wrong-then-right")
    assert_it_follows_the_window(shell)
    # A long past can be scrolled to, and what is typed then is seen again.
    typed(shell, "seq 1000 1400")
    expect(screen).to_contain_text("1400")
    screen.evaluate("view => { view.scrollTop = 0 }")
    shell.keyboard.type("#")
    shell.keyboard.press("Control+u")
    at_end = "view => view.scrollTop + view.clientHeight >= view.scrollHeight - 4"
    assert screen.evaluate(at_end)
    # The node's agent dies: the screen stays until the shell is there again, and it is the same.
    program = f"node-{node_of(stack, number)}"
    typed(shell, "kept=still-here; echo $((40+4))-kept")
    expect(screen).to_contain_text("44-kept")
    os.kill(stack.supervisor.pid_of(program), signal.SIGKILL)
    expect(shell.locator("#state")).to_contain_text("connection lost")
    expect(screen).to_contain_text("1400")
    expect(shell.locator("#state")).to_have_text("connected")
    typed(shell, "echo $kept-after")
    expect(screen).to_contain_text("still-here-after")
    typed(shell, "exit")
    expect(shell.locator("#state")).to_have_text("the shell has ended")
    assert stack.wait_for(number)["state"] == "succeeded"


def assert_it_follows_the_window(shell: Page) -> None:
    """The shell knows how wide it is, and nothing reaches beyond the window."""
    screen = shell.locator(".shell-view")
    sizes = []
    for mark, (width, height) in {"desk": (1280, 800), "phone": (390, 700)}.items():
        shell.set_viewport_size({"width": width, "height": height})
        shell.wait_for_timeout(500)
        typed(shell, f"echo {mark}=$(stty size | tr ' ' x)")
        found = re.compile(mark + r"=(\d+)x(\d+)")
        expect(screen).to_contain_text(found)
        text = screen.text_content() or ""
        sizes.append([int(side) for side in found.findall(text)[-1]])
        assert shell.evaluate("document.documentElement.scrollWidth <= innerWidth")
    (rows, columns), (fewer_rows, narrow) = sizes
    assert rows > 35 and 30 < fewer_rows < rows
    assert columns > 120 and 30 < narrow < 60


def node_of(stack, number: int) -> str:
    with stack.api() as api:
        return str(api.get(f"/sessions/{number}/").json()["node"])


_PRESS = """(event) => document.querySelector(".shell-keys")
  .dispatchEvent(new KeyboardEvent("keydown", {...event, cancelable: true, bubbles: true}))"""
_ROWS = "view => [...view.querySelectorAll(':scope > div > div')].map(row => row.textContent)"


def test_much_output_stands_whole_and_only_new_questions_are_answered(stack, visit):
    page = visit("alice", viewport={"width": 1280, "height": 800})
    number = start_shell(stack, page)
    try:
        shell = come_in(page, number)
        screen = shell.locator(".shell-view")
        # The line that is typed says nothing of the last number itself.
        typed(shell, "seq 1 $((50 * 1000))")
        expect(screen).to_contain_text("50000")
        numbers = [int(row) for row in screen.evaluate(_ROWS) if row.strip().isdecimal()]
        assert numbers[-1000:] == [*range(49_001, 50_001)]
        typed(shell, r"clear; printf 'x\033[5b 123456789\033[Zab\n'")
        expect(screen).to_contain_text("xxxxxx 1ab")
        typed(shell, r"clear; printf '\033[6n'; read -t 9 -rsd R answer; echo ${#answer}-signs")
        expect(screen).to_contain_text(re.compile("[4-7]-signs"))
        # A press of Alt is the shell's, but on a Mac it makes signs.
        assert shell.evaluate(_PRESS, {"key": "@", "code": "KeyL", "altKey": True}) is False
        typed(shell, "")
        typed(shell, "cat -v")
        shell.add_init_script('Object.defineProperty(navigator, "platform", {value: "MacIntel"})')
        shell.reload()
        expect(shell.locator("#state")).to_have_text("connected")
        assert shell.evaluate(_PRESS, {"key": "@", "code": "KeyL", "altKey": True}) is True
        # Ctrl opens the menu there, and the press has no end.
        screen.evaluate(_MENU_OF_A_MAC)
        # It was asked before this page was there: what runs by now is told nothing.
        typed(shell, "seen-by-cat")
        expect(screen).to_contain_text(re.compile(r"seen-by-cat\s*seen-by-cat"))
        assert "^[[" not in (screen.text_content() or "")
    finally:
        end(stack, number)


_MENU_OF_A_MAC = """view => view.lastChild.firstChild.dispatchEvent(
  new MouseEvent("mousedown", {ctrlKey: true, bubbles: true}))"""
_CHOSEN = "() => String(getSelection())"
_PLACE = """(view, text) => {
  const row = [...view.lastChild.children].find(one => one.textContent.startsWith(text));
  const box = row.getBoundingClientRect();
  return [box.x, box.y + box.height / 2];
}"""


def test_what_is_chosen_stays_while_the_shell_prints(stack, visit):
    page = visit("alice", viewport={"width": 1280, "height": 800})
    number = start_shell(stack, page)
    try:
        shell = come_in(page, number)
        screen = shell.locator(".shell-view")
        typed(shell, "clear; echo choose-this; n=0; while sleep .1; do echo loss-$((n+=1)); done")
        expect(screen).to_contain_text("loss-3")
        x, y = screen.evaluate(_PLACE, "choose-this")
        shell.mouse.move(x + 1, y)
        shell.mouse.down()
        shell.wait_for_timeout(300)
        shell.mouse.move(x + 60, y, steps=4)
        shell.wait_for_timeout(300)
        shell.mouse.up()
        shell.wait_for_timeout(300)
        chosen = shell.evaluate(_CHOSEN)
        assert chosen.startswith("choose")
        seen = len(screen.text_content() or "")
        # Copied, not sent: the loop goes on, and is seen again once something is typed.
        shell.keyboard.press("Control+c")
        assert len(screen.text_content() or "") == seen
        shell.keyboard.type("#")
        last = re.compile(r"loss-(\d+)")
        before = max(map(int, last.findall(screen.text_content() or "")))
        expect(screen).to_contain_text(f"loss-{before + 5}")
        assert shell.evaluate(_CHOSEN) == ""
    finally:
        end(stack, number)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_shells_page_is_accessible_in_both_themes(stack, visit, theme):
    page = visit("alice", color_scheme=theme, bypass_csp=True)
    number = start_shell(stack, page)
    try:
        page.goto(f"/sessions/{number}/")
        assert not accessibility_breaches(page)
        shell = come_in(page, number)
        typed(shell, r"for n in 1 2 3 4 5 6; do printf '\033[3%dmcolour\033[0m ' $n; done; echo .")
        expect(shell.locator(".t-fg6", has_text="colour")).to_be_visible()
        typed(shell, "seq 100")
        expect(shell.locator(".shell-view")).to_contain_text("100")
        assert not accessibility_breaches(shell)
        # By keys alone one leaves it again.
        shell.keyboard.press("Control+Shift+ArrowUp")
        expect(shell.get_by_role("link", name="Session's page")).to_be_focused()
    finally:
        end(stack, number)
