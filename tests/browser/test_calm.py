"""Updates leave alone what somebody is busy with, cost little, and are caught up on."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import Page, WebSocket, expect

from tests.browser.conftest import Door, cancel, expect_live

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
MOST_A_MINUTE = 12
# A region that is renewed every ten seconds may be so at both ends of a span; a page has two such.
AT_THE_ENDS = 2
# Once it is watching, a page renews its regions, for what came between: longer than until then.
_RENEWED_MS = 1_000
OUTAGE_MS = 20_000
_SELECTED = "getSelection().toString()"


def a_node(stack) -> str:
    with stack.api("admin") as api:
        return api.get("/nodes/").json()["items"][0]["name"]


@pytest.mark.parametrize(
    ("changes", "pause_ms"), [(4, 1_500), pytest.param(12, 5_000, marks=pytest.mark.long)]
)
def test_an_open_menu_a_selection_and_a_field_in_use_outlast_updates(
    stack, visit, changes, pause_ms
):
    name = a_node(stack)
    writes, reads = visit("admin"), visit("alice")
    for page in (writes, reads):
        page.goto(f"/cluster/nodes/{name}/")
        expect_live(page.locator("#live-chip"))
    writes.locator("#place-menu summary").click()
    field = writes.locator("#place-menu").get_by_label("Rack")
    field.fill("half a wor")
    reads.locator("#node-live h2").first.select_text()
    selected = reads.evaluate(_SELECTED)
    assert selected.strip()
    typed_in = field.element_handle()
    try:
        for number in range(changes):
            with stack.api("admin") as api:
                way = "resume" if number % 2 else "drain"
                assert api.post(f"/nodes/{name}/{way}/").status_code == 200
            writes.wait_for_timeout(pause_ms)
            # The same field as before, not one like it.
            assert typed_in.evaluate(
                "field => field.isConnected && document.activeElement === field"
            )
            expect(field).to_have_value("half a wor")
            expect(writes.locator("#place-menu[open]")).to_be_visible()
            assert reads.evaluate(_SELECTED) == selected
    finally:
        with stack.api("admin") as api:
            api.post(f"/nodes/{name}/resume/")
    # It was told, so that there was something to hold back.
    for page, region in ((writes, "node-head"), (reads, "node-live")):
        expect(page.locator(f'[data-changed="{region}"]')).to_be_visible()
    writes.keyboard.type("d")
    expect(field).to_have_value("half a word")


class Counted:
    """What a page asks for once it watches and is renewed, and every socket it ever opened."""

    def __init__(self, page: Page, path: str) -> None:
        self.page, self.path = page, path
        self.asked: list[str] = []
        self.sockets: list[WebSocket] = []
        page.on("websocket", lambda socket: self.sockets.append(socket))
        page.goto(path)
        expect_live(page.locator("#live-chip"))
        page.wait_for_timeout(_RENEWED_MS)
        page.wait_for_load_state("networkidle")
        self.since = time.monotonic()
        page.on("request", lambda request: self.asked.append(request.url))

    def most(self) -> float:
        """What it may have asked for so far."""
        return MOST_A_MINUTE * (time.monotonic() - self.since) / 60 + AT_THE_ENDS


@pytest.mark.parametrize("seconds", [30, pytest.param(120, marks=pytest.mark.long)])
def test_a_page_left_alone_asks_little_and_has_one_socket(stack, visit, job, seconds):
    first = visit("alice")
    paths = (f"/jobs/{job}/", "/", "/jobs/?q=state:running")
    pages = [Counted(first.context.new_page(), path) for path in paths]
    first.wait_for_timeout(seconds * 1000)
    for one in pages:
        told = f"{one.path} in {seconds} s: {one.asked}"
        assert len(one.asked) <= one.most(), told
        assert len(one.sockets) == 1, told


@pytest.mark.long
def test_a_table_says_that_its_socket_is_gone_and_equals_a_fresh_one_after(stack, visit):
    made = [stack.submit(name=f"outage-{n}", script="sleep 600")["id"] for n in range(3)]
    for one in made:
        stack.wait_for(one, "running")
    page = visit("alice")
    door = Door(page)
    page.goto("/jobs/?q=outage")
    chip, states = page.locator("#live-chip"), "#job-rows tbody .pill"
    expect_live(chip)
    door.shut()
    expect(chip).to_contain_text("Live paused")
    cancel(stack, made[0])
    page.wait_for_timeout(OUTAGE_MS)
    cancel(stack, made[1])
    door.open()
    expect_live(chip)
    fresh = visit("alice")
    fresh.goto("/jobs/?q=outage")
    told = fresh.locator(states).all_text_contents()
    assert len(told) == len(made)
    assert sum("cancelled" in one for one in told) == 2
    expect(page.locator(states)).to_have_text(told)
    cancel(stack, made[2])
