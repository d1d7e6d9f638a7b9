"""Saved views: named query strings of a table, one's own and the team's."""

from __future__ import annotations

from urllib.parse import unquote

import pytest

from scheduler.models import SavedView
from scheduler.selectors.tables import around
from scheduler.services.errors import Conflict, Invalid
from scheduler.services.saved import save_view
from scheduler.services.saved.keeping import MOST_VIEWS

pytestmark = pytest.mark.django_db


def save(client, **fields):
    sent = {"table": "jobs", "name": "Big ones", "query": "q=gpus%3A%3E%3D8&cursor=x", **fields}
    return client.post("/views/save/", sent)


def test_saved_opened_first_renamed_and_deleted(client, alice, project):
    client.force_login(alice)
    assert save(client)["Location"] == "/jobs/?q=gpus%3A%3E%3D8"
    page = client.get("/jobs/?q=gpus:>=8").content.decode()
    assert 'aria-current="true"><bdi class="name">Big ones' in page
    pk = SavedView.objects.get().pk
    client.post(f"/views/{pk}/", {"action": "default"})
    assert client.get("/jobs/")["Location"] == "/jobs/?q=gpus%3A%3E%3D8"
    assert client.get("/jobs/?q=").status_code == 200
    client.post(f"/views/{pk}/", {"action": "rename", "name": "<b>Large</b>"})
    assert "&lt;b&gt;Large" in client.get("/jobs/?q=").content.decode()
    client.post(f"/views/{pk}/", {"action": "delete"})
    assert client.get("/jobs/").status_code == 200


def test_shared_with_a_team_and_nobody_else(client, alice, bob, carol, team):
    client.force_login(alice)
    save(client, team=team.slug)
    pk = SavedView.objects.get().pk
    client.force_login(bob)
    assert "Big ones" in client.get("/jobs/").content.decode()
    assert client.post(f"/views/{pk}/", {"action": "delete"}).status_code == 404
    client.force_login(carol)
    assert "Big ones" not in client.get("/jobs/").content.decode()
    assert client.post(f"/views/{pk}/", {"action": "rename", "name": "x"}).status_code == 404
    assert save(client, team=team.slug).status_code == 404
    assert save(client, table="secrets").status_code == 404


def test_so_many_and_no_more(alice):
    for number in range(MOST_VIEWS):
        save_view(actor=alice, table="jobs", name=f"view {number}", query="q=")
    with pytest.raises(Conflict, match="20 views"):
        save_view(actor=alice, table="jobs", name="one more", query="q=")
    assert save_view(actor=alice, table="jobs", name="view 3", query="q=x").query == "q=x"
    with pytest.raises(Invalid, match="printable"):
        save_view(actor=alice, table="audit", name="\x00", query="")


def test_ones_own_are_shown_before_what_teams_share(client, alice, bob, team, project, monkeypatch):
    monkeypatch.setattr(around, "MOST_SHOWN", 2)
    for name in ("aa", "bb"):
        save_view(actor=bob, table="jobs", name=name, query=f"q=name:{name}", team=team)
    client.force_login(alice)
    assert "are not shown" not in client.get("/jobs/?q=").content.decode()
    save_view(actor=alice, table="jobs", name="zz", query="q=name:zz")
    html = client.get("/jobs/?q=").content.decode()
    assert "name:zz" in unquote(html) and "name:aa" in unquote(html)
    assert "name:bb" not in unquote(html)
    assert "1 more that teams share" in html


def test_a_report_is_kept_with_its_groups_and_found_from_the_index(client, root):
    client.force_login(root)
    page = client.get("/finance/reports/capacity/?by=pool&after=x").content.decode()
    assert 'value="report=capacity&amp;by=pool"' in page
    kept = save(client, table="reports", name="By pool", query="report=capacity&by=pool&after=x")
    assert kept["Location"] == "/finance/?report=capacity&by=pool"
    assert client.get(kept["Location"])["Location"] == "/finance/reports/capacity/?by=pool"
    assert "/finance/?report=capacity&amp;by=pool" in client.get("/finance/").content.decode()
    view = SavedView.objects.get()
    client.post(f"/views/{view.pk}/", {"action": "default"})
    view.refresh_from_db()
    assert not view.is_default, "no report opens by itself"
    client.post(f"/views/{view.pk}/", {"action": "delete"})
    assert not SavedView.objects.exists()
    assert (
        "there is no &#x27;nonsense&#x27;"
        in client.get("/finance/?report=nonsense").content.decode()
    )
