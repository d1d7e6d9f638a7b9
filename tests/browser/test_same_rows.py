"""A filtered and ordered table is the same after a reload, and for another of the same role."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Page, expect

from tests.browser import seeding

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
# Who gets a role of the organisation for these tests, beside the one who has it.
SECOND = {"auditor": "chen", "finance": "carol"}


@dataclass(frozen=True)
class Table:
    """Whose it is, and one other; where it is, how it is narrowed, a heading that orders it; what
    tells a row, and what stands in the address in the end."""

    people: tuple[str, str]
    address: str
    narrow: Callable[[Page], None]
    heading: str
    rows: str
    asked: tuple[str, ...]


def search(label: str, text: str, button: str) -> Callable[[Page], None]:
    """By a field of the form above the table."""

    def narrow(page: Page) -> None:
        page.get_by_label(label, exact=True).fill(text)
        page.get_by_role("button", name=button, exact=True).click()

    return narrow


def follow(name: str) -> Callable[[Page], None]:
    """By a link."""
    return lambda page: page.get_by_role("link", name=name).click()


TABLES = {
    "jobs": Table(
        ("alice", "bob"),
        "/jobs/",
        search("Filter jobs", "same-rows user:alice", "Filter"),
        "GPUs",
        "#job-rows tbody .jn",
        ("q=same-rows", "sort=-gpus"),
    ),
    "nodes": Table(
        ("alice", "bob"),
        "/cluster/nodes/",
        follow("nodes of default"),
        "Node",
        "#nodes-live tr[id^=node-] th",
        ("pool=default", "sort=-name"),
    ),
    "audit": Table(
        ("amir", "chen"),
        "/audit/",
        search("Action", "request", "Search"),
        "When",
        "tr[id^=e]",
        ("action=request", "sort=at"),
    ),
    "approvals": Table(
        ("amir", "chen"),
        "/approvals/",
        follow("All open"),
        "Asked",
        "main tbody tr th",
        ("state=all", "sort=-asked"),
    ),
    "report": Table(
        ("frida", "carol"),
        "/finance/reports/segments/?period={month}",
        search("Team", "vision", "Show"),
        # What is streamed has the order of its keys alone.
        "",
        "table.report tbody tr",
        ("team=vision",),
    ),
}


@pytest.fixture(scope="module", autouse=True)
def things(stack) -> Iterator[None]:
    """Two jobs that have ended, two requests that wait, and a second person of each role."""
    with stack.api("admin") as admin:
        for role, username in SECOND.items():
            given = admin.post("/roles/", json={"username": username, "role": role})
            assert given.status_code == 201, given.text
        for gpus in (2, 1):
            job = stack.submit(name=f"same-rows-{gpus}", script="sleep 2", gpus_per_node=gpus)
            stack.wait_for(job["id"])
        owners = ("vision/segmentation", "vision/digits")
        asked = [seeding.ask(stack, owner=owner) for owner in owners]
        yield
        for role, username in SECOND.items():
            admin.post("/roles/take/", json={"username": username, "role": role})
    with stack.api("alice") as alice:
        for number in asked:
            alice.post(f"/requests/{number}/withdraw/")


def told(page: Page, rows: str) -> list[str]:
    """Each row in words, but for a seal that an event may get between two looks."""
    texts = page.locator(rows).all_text_contents()
    return [" ".join(text.replace(", not sealed yet", "").split()) for text in texts]


def in_order_of(page: Page, table: Table, before: list[str]) -> list[str]:
    """The rows after a press of the heading: the same ones in another order."""
    # An arrow that the sheet draws is part of a link's name.
    page.locator("th a").filter(has_text=re.compile(f"^{table.heading}$")).click()
    for word in table.asked:
        page.wait_for_url(f"**{word}**")
    expect(page.locator("th[aria-sort]")).to_have_count(1)
    seen = told(page, table.rows)
    assert sorted(seen) == sorted(before) and seen != before
    return seen


@pytest.mark.parametrize("name", TABLES)
def test_an_address_shows_the_same_rows_again_and_to_another(stack, visit, name):
    table = TABLES[name]
    page = visit(table.people[0])
    page.goto(table.address.format(month=page.evaluate("new Date().toISOString().slice(0, 7)")))
    table.narrow(page)
    page.wait_for_url(f"**{table.asked[0]}**")
    seen = told(page, table.rows)
    if table.heading:
        seen = in_order_of(page, table, seen)
    assert len(seen) > 1
    page.reload()
    assert told(page, table.rows) == seen
    other = visit(table.people[1])
    other.goto(page.url)
    assert told(other, table.rows) == seen
