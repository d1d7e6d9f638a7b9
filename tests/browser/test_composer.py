"""The composer by keys alone: what is wrong with a field stands at it until it is mended."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import accessibility_breaches
from tests.browser.keys import by_keys, press, tab_to, write

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]


def settled(page: Page) -> None:
    """What was typed has been checked."""
    expect(page.locator("#summary .todo")).to_be_visible()
    expect(page.locator(".htmx-request")).to_have_count(0)


def expect_wrong(page: Page, field: str, words: str) -> None:
    """It says so at the field, which refers to it."""
    box = page.locator(f"#id_{field}")
    expect(page.locator(f"#id_{field}_error .err")).to_contain_text(words)
    expect(box).to_have_attribute("aria-invalid", "true")
    expect(box).to_have_attribute("aria-describedby", re.compile(rf"\bid_{field}_error$"))


def test_errors_come_and_go_at_the_field_while_the_hand_stays_where_it_is(visit):
    page = by_keys(visit("alice", bypass_csp=True))
    page.goto("/jobs/new/")
    memory, limit = page.locator("#id_memory"), page.locator("#id_time_limit")
    write(memory, "lots")
    # Whoever pauses is told without leaving the field; nothing of it is swapped.
    page.evaluate("window.typedIn = document.activeElement")
    expect_wrong(page, "memory", "'lots' is not a size; write it like 16GB")
    words = page.locator("#id_memory_error").inner_text()
    expect(memory).to_be_focused()
    assert page.evaluate("window.typedIn === document.activeElement")
    # On the way there somebody passed by these.
    expect_wrong(page, "name", "This field is required.")
    expect_wrong(page, "command", "Give a command")
    write(limit, "P1Y")
    page.keyboard.press("Tab")
    expect_wrong(page, "time_limit", "not a duration")
    expect_wrong(page, "memory", "'lots' is not a size; write it like 16GB")
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        assert accessibility_breaches(page) == []
    page.emulate_media(color_scheme="light")
    # The same words as after a submit. A check that is cut off would be told on the console.
    settled(page)
    page.goto("/jobs/new/")
    write(page.locator("#id_name"), "told-twice")
    write(page.locator("#id_command"), "true")
    write(page.locator("#id_memory"), "lots")
    write(page.locator("#id_cpus"), "0")
    settled(page)
    page.keyboard.press("Enter")
    box = page.locator("#form-errors")
    expect(box).to_be_focused()
    expect(box.locator("li")).to_have_count(2)
    assert page.locator("#id_memory_error").inner_text() == words
    write(page.locator("#id_memory"), "1GiB")
    expect(page.locator("#id_memory_error .err")).to_have_count(0)
    expect(page.locator("#id_memory")).not_to_have_attribute("aria-invalid", "true")
    expect(page.locator("#id_memory")).to_be_focused()
    # What is mended leaves the list above the form, and the last one takes it along.
    expect(box.locator("li")).to_have_text([re.compile("^CPUs per node: ")])
    write(page.locator("#id_cpus"), "2")
    expect(box).to_have_count(0)
    expect(page.locator("#id_cpus")).to_be_focused()


def test_an_empty_field_is_named_once_somebody_left_it_and_nothing_is_kept_of_it(stack, visit):
    page = by_keys(visit("alice"))
    page.goto("/jobs/new/")
    tab_to(page.locator("#id_name"))
    page.keyboard.press("Tab")
    settled(page)
    expect_wrong(page, "name", "This field is required.")
    expect(page.locator("#id_command_error .err")).to_have_count(0)
    expect(page.locator("#summary")).not_to_contain_text("Draft kept")
    press(page.locator("#id_command"), "Tab")
    expect_wrong(page, "command", "Give a command, or a script below.")
    page.reload()
    write(page.locator("#id_name"), "named")
    write(page.locator("#id_command"), "true")
    expect(page.locator("#summary")).to_contain_text("Every check passes")
    expect(page.locator(".err")).to_have_count(0)


def test_a_check_goes_its_own_way_whichever_button_has_the_focus_meanwhile(visit):
    page = visit("alice")
    page.goto("/jobs/new/?from=sample")
    settled(page)
    for name in ("Repeat…", "What if it were smaller or larger"):
        page.locator("#id_memory").fill("lots")
        with page.expect_request("**/jobs/new/?part=summary"):
            page.get_by_role("button", name=name).focus()
        expect_wrong(page, "memory", "'lots' is not a size")
        page.locator("#id_memory").fill("1GiB")
        settled(page)
        expect(page.locator("#summary")).to_contain_text("Every check passes")


def test_the_button_stands_still_while_the_summary_comes(visit):
    """Whoever goes to press it as soon as the page is there does not press beside it."""
    page = visit("alice")
    held: list[Route] = []
    page.route("**/jobs/new/?part=summary", lambda route: held.append(route))
    with page.expect_request("**/jobs/new/?part=summary"):
        page.goto("/jobs/new/?from=sample")
    button = page.get_by_role("button", name="Submit job")
    before = button.bounding_box()
    expect(page.locator("#summary .todo")).to_have_count(0)
    held.pop().continue_()
    settled(page)
    expect(page.locator("#summary")).to_contain_text("Cost at most")
    assert button.bounding_box() == before


def test_who_types_on_is_answered_for_what_stands_there_at_last(visit):
    """While a check is under way others wait, and only the last is made: none is broken off, which
    would be told on the console, and no older answer comes after a newer one.
    """
    page = visit("alice")
    page.goto("/jobs/new/?from=sample")
    settled(page)
    held: list[Route] = []
    page.route("**/jobs/new/?part=summary", lambda route: held.append(route))
    page.evaluate(
        """document.addEventListener('htmx:confirm', () => {
          document.body.dataset.asked = 1 + Number(document.body.dataset.asked || 0);
        })"""
    )
    memory = page.locator("#id_memory")
    for number, text in enumerate(("lots", "1GiB", "many"), start=1):
        memory.fill(text)
        expect(page.locator("body")).to_have_attribute("data-asked", str(number))
    (first,) = held
    assert "memory=lots" in (first.request.post_data or "")
    with page.expect_request("**/jobs/new/?part=summary"):
        first.continue_()
    expect(page.locator("body")).to_have_attribute("data-asked", "4")
    assert "memory=many" in (held[-1].request.post_data or "")
    held[-1].continue_()
    expect_wrong(page, "memory", "'many' is not a size")
    settled(page)
    assert len(held) == 2
