"""On a phone: what one has come for is within reach, and side by side means so."""

from __future__ import annotations

import pytest

from tests.browser import seeding
from tests.browser.conftest import cancel

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
PHONE = {"viewport": {"width": 390, "height": 844}}


def box_of(page, selector: str) -> dict[str, float]:
    box = page.locator(selector).first.bounding_box()
    assert box is not None, selector
    return box


def test_the_answer_to_a_cancel_of_many_comes_before_the_many(stack, visit):
    proposal = seeding.doubt(stack)
    page = visit("olga", **PHONE)
    page.goto(f"/approvals/cancels/{proposal}/")
    answer = box_of(page, "#decide [value=agree]")
    assert answer["y"] + answer["height"] < 844
    assert answer["y"] < box_of(page, "main details:not(.menu) > summary")["y"]
    assert not page.locator("main table").is_visible()
    page.get_by_text("One by one").click()
    assert page.locator("main table").is_visible()
    with stack.api("admin") as api:
        api.post(f"/bulk-cancels/{proposal}/agree/")


def test_two_jobs_are_compared_side_by_side_and_a_third_beside_them(stack, visit):
    jobs = [stack.submit(name=f"compared-{n}", script="true", hold=True)["id"] for n in range(3)]
    page = visit("alice", **PHONE)
    try:
        page.goto(f"/jobs/compare/?id={','.join(map(str, jobs))}")
        row = page.locator(".compare tbody tr").first
        word, *values = (cell.bounding_box() for cell in row.locator("> *").all())
        assert word["y"] + word["height"] <= values[0]["y"] + 1
        assert [round(value["y"]) for value in values] == [round(values[0]["y"])] * 3
        assert values[0]["x"] >= 0 and values[1]["x"] + values[1]["width"] <= 390
        assert values[2]["x"] >= values[1]["x"] + values[1]["width"] - 1
    finally:
        for job in jobs:
            cancel(stack, job)


def test_pictures_of_time_begin_at_now_on_pages_and_where_they_are_fetched(stack, visit):
    all_of_it = {"nodes": 2, "gpus_per_node": 8}
    holds = stack.submit(name="holds-room", script="sleep 300", **all_of_it)["id"]
    stack.wait_for(holds, "running")
    waits = stack.submit(name="waits-for-room", script="true", **all_of_it)["id"]
    page = visit("alice", **PHONE)
    try:
        for address in ("/cluster/timeline/?span=6h", "/cluster/free/?span=6h", f"/jobs/{waits}/"):
            page.goto(address)
            page.locator(".ganttbox .now").first.wait_for(state="attached")
            page.wait_for_timeout(300)
            now, frame = box_of(page, ".ganttbox .now"), box_of(page, ".ganttbox")
            assert 0 < now["x"] - frame["x"] < 110, address
    finally:
        cancel(stack, waits)
        cancel(stack, holds)
