"""What a job's page answers, with a real mouse: copying, and what a script adds to the answers."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]


def test_a_spec_is_copied_with_one_press(stack, visit):
    job = stack.submit(name="to-be-copied", script="true")
    page = visit("alice", permissions=["clipboard-read", "clipboard-write"])
    page.goto(f"/jobs/{job['id']}/spec/")
    page.get_by_role("button", name="Copy YAML").click()
    expect(page.get_by_text("Copied.")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert "name: to-be-copied" in copied
    still = visit("alice", java_script_enabled=False)
    still.goto(f"/jobs/{job['id']}/spec/")
    expect(still.get_by_role("heading", name="Spec", exact=True)).to_be_visible()
    expect(still.get_by_role("button", name="Copy YAML")).to_be_hidden()
