"""The newcomer's whole path: sign in, submit, why it waits, live log and charts, success, cost."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.keys import by_keys, write

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

# The page notes by itself how long its log was: we may look when the job is over already.
_LENGTHS = """window.lengths = new Set();
new MutationObserver(() => lengths.add(document.querySelectorAll(".log .rows > *").length))
  .observe(document, {childList: true, subtree: true});
"""
# Presses by a person, over the pages of one tab.
_CLICKS = """addEventListener("click", (event) => {
  if (event.isTrusted) sessionStorage.clicks = 1 + Number(sessionStorage.clicks ?? 0);
}, true);
"""
MOST_CLICKS = 3


@pytest.fixture
def blocker(stack) -> Iterator[int]:
    """Somebody else holds every GPU, until the test lets go."""
    job = stack.submit(
        "bob", name="fills-the-cluster", script="sleep 600", nodes=2, gpus_per_node=8
    )
    stack.wait_for(job["id"], "running", username="bob")
    yield job["id"]
    _end(stack, job["id"])


def _end(stack, job_id: int) -> None:
    with stack.api("bob") as api:
        assert api.post(f"/jobs/{job_id}/cancel/").status_code == 200
    stack.wait_for(job_id, username="bob")


def job_of(page: Page) -> int:
    """The number in the page's address."""
    return int(page.url.split("/jobs/")[1].split("/")[0])


def _submit_the_sample(page: Page) -> int:
    """From the first page to the job's own page, by clicking; the job's number."""
    page.get_by_role("link", name="New job").first.click()
    page.get_by_role("link", name="Start from the sample").click()
    expect(page.get_by_label("Name")).to_have_value("digits-sample")
    expect(page.locator("#summary")).to_contain_text("Cost at most")
    page.get_by_role("button", name="Submit job").click()
    page.wait_for_url(re.compile(r"/jobs/\d+/"))
    return job_of(page)


def test_the_whole_path(stack, blocker, visit):
    page = visit("alice")
    page.add_init_script(_LENGTHS)
    page.add_init_script(_CLICKS)
    page.goto("/")
    job_id = _submit_the_sample(page)

    why = page.locator("#job-why")
    expect(why).to_contain_text("Why it waits")
    expect(why).to_contain_text("GPU")
    expect(page.locator("#job-head")).to_contain_text("queued")

    _end(stack, blocker)
    # From here on nobody touches the page: it must follow by itself.
    expect(page.locator("#job-head")).to_contain_text("running")
    rows = page.locator(".log .rows > *")
    expect(rows.filter(has_text="epoch").first).to_be_visible()
    assert 0 < page.evaluate("Number(sessionStorage.clicks)") <= MOST_CLICKS
    expect(page.locator(".log .rows")).to_contain_text("epoch 10/20")
    assert page.evaluate("lengths.size") > 1, "the log did not grow while it was open"
    expect(page.locator(".plot .main-svg").first).to_be_visible()
    expect(page.locator("#job-head")).to_contain_text("succeeded")
    expect(page.locator(".log .rows")).to_contain_text(re.compile(r"final accuracy: 0\.9\d"))

    page.get_by_role("link", name="Cost", exact=True).click()
    page.wait_for_url(f"**/jobs/{job_id}/cost/")
    expect(page.locator("#job-cost")).to_contain_text("final")
    expect(page.locator("#job-cost tfoot")).to_contain_text("EUR")
    with stack.api() as api:
        cost = api.get(f"/jobs/{job_id}/cost/").json()
    expect(page.locator("#job-cost tfoot")).to_contain_text(str(cost["gpu_seconds"]))


def test_the_whole_path_without_javascript(stack, visit):
    page = visit("alice", java_script_enabled=False)
    page.goto("/jobs/new/?from=sample")
    page.get_by_role("button", name="Check only").click()
    expect(page.locator("#summary")).to_contain_text("Every check passes")
    page.get_by_role("button", name="Submit job").click()
    job_id = job_of(page)
    expect(page.locator("#job-head")).to_contain_text("digits-sample")
    stack.wait_for(job_id)
    page.reload()
    expect(page.locator("#job-head")).to_contain_text("succeeded")
    page.get_by_role("link", name="Logs").click()
    expect(page.locator(".log .rows")).to_contain_text("final accuracy")
    page.get_by_role("link", name="Metrics").click()
    expect(page.locator("table").first).to_be_attached()
    page.get_by_role("link", name="Cost", exact=True).click()
    expect(page.locator("#job-cost tfoot")).to_contain_text("EUR")


def test_cancel_by_hand(stack, visit):
    job = stack.submit(name="to-be-cancelled", script="sleep 600")
    stack.wait_for(job["id"], "running")
    page = visit("alice")
    page.goto(f"/jobs/{job['id']}/")
    page.locator("#cancel-menu summary").click()
    page.get_by_role("button", name=f"Cancel job #{job['id']}").click()
    expect(page.locator("#job-head")).to_contain_text("cancelled")


def test_a_mistake_is_named_beside_its_field(visit):
    """By keys alone: from home to the form, through it, to the mistake, and to the job."""
    page = by_keys(visit("alice"))
    page.goto("/")
    page.keyboard.press("c")
    page.wait_for_url("**/jobs/new/")
    for field, text in (("name", "by-keys"), ("command", "true"), ("memory", "lots")):
        write(page.locator(f"#id_{field}"), text)
        expect(page.locator(".htmx-request")).to_have_count(0)
    page.keyboard.press("Enter")
    expect(page.locator("#id_memory")).to_have_attribute("aria-invalid", "true")
    assert "/jobs/new/" in page.url
    expect(page.locator("#form-errors")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    write(page.locator("#id_memory"), "1GiB")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/jobs/\d+/"))
    assert job_of(page)
