"""On a narrow page things stand as they are written: an answer comes before a long list."""

from __future__ import annotations

import pytest
from django.utils import timezone

from scheduler.selectors.requesting import teams_slower
from tests import requesting, scenes

pytestmark = pytest.mark.django_db


def test_who_decides_finds_the_answer_before_what_is_behind_it(client, root, alice, project, lead):
    scenes.build_cluster(root, nodes=1, gpus=4)
    asked = requesting.ask(alice, project, now=timezone.now())
    client.force_login(lead)
    page = client.get(f"/requests/{asked.pk}/").content.decode()
    parts = [page.index(f'id="{name}"') for name in ("decide", "whatif", "history")]
    assert parts == sorted(parts) and "Not simulated yet" in page
    client.force_login(alice)
    page = client.get(f"/requests/{asked.pk}/").content.decode()
    assert 'id="decide"' not in page and page.count("limits and grants in force") == 1


def test_teams_are_slower_if_all_that_is_asked_for_makes_them_wait():
    def team(is_news: bool, *p90_s: int) -> dict[str, object]:
        return {"is_news": is_news, "p90_s": p90_s}

    waits = team(True, 60, 60, 90)
    assert teams_slower({"teams": [waits, team(True, 90, 95, 60), team(False, 60, 60, 61)]}) == 1
    assert teams_slower({"teams": []}) == 0
