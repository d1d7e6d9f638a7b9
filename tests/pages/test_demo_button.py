"""The button of the first steps that loads the demonstration, and the banner that stays."""

from __future__ import annotations

import pytest
from django.utils import timezone

from accounts.models import DemoAct, DemoMark, DemoOrder

pytestmark = [pytest.mark.django_db, pytest.mark.once]


def panel(client) -> str:
    html = client.get("/welcome/").content.decode()
    return html.partition('id="demo"')[2].partition("</section>")[0]


def test_a_click_asks_a_second_one_changes_nothing_and_the_page_follows(root, client):
    client.force_login(root)
    assert "Load demonstration data" in panel(client)
    assert client.post("/welcome/demo/", {"act": "load"}).url == "/welcome/#demo"
    asked = DemoOrder.objects.get()
    client.post("/welcome/demo/", {"act": "load"})
    assert DemoOrder.objects.get().asked_at == asked.asked_at
    shown = panel(client)
    assert "It is being loaded" in shown and 'hx-trigger="every 2s"' in shown
    part = client.get("/welcome/", {"part": "demo"})
    assert "HX-Refresh" not in part and "<html" not in part.content.decode()
    DemoOrder.objects.update(ended_at=timezone.now(), is_refused=True, says="There are jobs here.")
    assert client.get("/welcome/", {"part": "demo"})["HX-Refresh"] == "true"
    assert "<b>Not loaded.</b> There are jobs here." in panel(client)


def test_the_banner_is_on_every_page_and_only_administrators_may_remove(
    root, operator, alice, client
):
    DemoMark.objects.create(seeded_at=timezone.now(), seed=1)
    for who, may in ((root, True), (operator, False), (alice, False)):
        client.force_login(who)
        for path in ("/", "/jobs/", "/queue/", "/help/", "/cluster/nodes/"):
            main = client.get(path).content.decode().partition("<main")[2]
            assert main.count("Demonstration data.") == 1, path
            assert (">Remove them</a>" in main) is may, path
    client.force_login(operator)
    assert "Remove demonstration data" not in panel(client)
    assert client.post("/welcome/demo/", {"act": "remove"}).status_code == 403
    client.force_login(alice)
    assert client.post("/welcome/demo/", {"act": "remove"}).status_code == 404
    assert not DemoOrder.objects.exists()


def test_what_is_neither_of_both_is_refused_by_name(root, client):
    client.force_login(root)
    page = client.post("/welcome/demo/", {"act": "burn"}, follow=True).content.decode()
    assert "Act: choose load or remove" in page
    assert DemoAct.values == ["load", "remove"] and not DemoOrder.objects.exists()
