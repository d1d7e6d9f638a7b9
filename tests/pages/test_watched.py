"""Watching the job of another, on its page."""

from __future__ import annotations

import pytest

from tests.scenes import build_cluster, submit

pytestmark = pytest.mark.django_db


def test_a_colleague_presses_watch_and_stops(client, root, alice, bob, carol, project):
    build_cluster(root, nodes=1, gpus=1)
    job = submit(alice, project)
    url = f"/jobs/{job.pk}/"
    client.force_login(bob)
    assert "Stop watching" not in client.get(url).content.decode()
    assert "You watch it" in client.post(f"{url}watch/", follow=True).content.decode()
    assert "Stop watching" in client.get(url).content.decode()
    client.force_login(alice)
    shown = client.get(url).content.decode()
    assert "<dt>Watched by</dt><dd>bob</dd>" in shown
    assert "You own job" in client.post(f"{url}watch/", follow=True).content.decode()
    client.force_login(carol)
    assert client.post(f"{url}watch/").status_code == 404
    client.force_login(bob)
    client.post(f"{url}watch/", {"chosen": "1", "also": "start"})
    assert 'value="start" checked' in client.get(url).content.decode()
    assert "its start, too" in client.get("/settings/notifications/").content.decode()
    client.post(f"{url}watch/", {"stop": "1"})
    assert "Stop watching" not in client.get(url).content.decode()


def test_an_array_is_watched_on_its_page_and_left_from_the_list(
    client, root, alice, bob, carol, project
):
    build_cluster(root, nodes=1, gpus=1)
    task = submit(alice, project, array="0-1")
    url = f"/sets/{task.job_set_id}/"
    client.force_login(bob)
    assert "Watch this array" in client.get(url).content.decode()
    client.post(f"{url}watch/")
    assert "Stop watching" in client.get(url).content.decode()
    assert "Stop watching" in client.get(f"/jobs/{task.pk}/").content.decode()
    assert f'href="{url}"' in client.get("/settings/notifications/").content.decode()
    client.force_login(alice)
    assert "<dt>Watched by</dt><dd>bob</dd>" in client.get(url).content.decode()
    client.force_login(carol)
    assert client.post(f"{url}watch/").status_code == 404
    client.force_login(bob)
    left = client.post(f"{url}watch/", {"stop": "1", "listed": "1"}, follow=True)
    assert left.redirect_chain[0][0] == "/settings/notifications/"
    assert f'href="{url}"' not in left.content.decode()
