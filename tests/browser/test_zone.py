"""A page says times in the zone of the browser, from the first one after signing in on."""

from __future__ import annotations

import os
import threading

import pytest
from playwright.sync_api import expect

from accounts.models import User
from tests import factories
from tests.browser.conftest import PATIENCE_MS, sign_in

# As in test_closing.py.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    ("has_script", "zone", "word"), [(True, "Asia/Tokyo", "JST"), (False, "UTC", "UTC")]
)
def test_the_first_page_after_signing_in_is_local(
    chromium, live_server, root: User, has_script, zone, word
):
    options = {"timezone_id": "Asia/Tokyo", "java_script_enabled": has_script}
    context = chromium.new_context(base_url=live_server.url, **options)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    sign_in(page, root.username, factories.PASSWORD)
    expect(page.locator(".meta.zone")).to_have_text(f"Times are in {zone}.")
    hover = page.locator("h1 + .sub time").first.get_attribute("title")
    assert hover is not None and hover.endswith(f" {word}")
    if has_script:
        page.goto("/settings/profile/")
        page.get_by_role("button", name="UTC", exact=True).click()
        expect(page.locator(".meta.zone")).to_have_text("Times are in UTC.")
        page.get_by_role("button", name="As this browser's clock").click()
        expect(page.locator(".meta.zone")).to_have_text("Times are in Asia/Tokyo.")
        page.goto("/finance/")
        expect(page.locator(".meta.zone")).to_have_text("Times are in UTC.")
    context.close()
    # One that still answered when the server goes could not close its connection any more.
    for thread in threading.enumerate():
        if "process_request_thread" in thread.name:
            thread.join(10)
