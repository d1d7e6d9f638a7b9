"""What the board of a team says of its figures: heads with units, and charts that say what they
draw."""

from __future__ import annotations

import pytest

from portal.pages.people.board import draw
from scheduler.models import Budget
from scheduler.selectors.sharing.boards.board import team_board
from tests.pages.test_team_board import URL, board_scene, now
from tests.scenes import submit

pytestmark = pytest.mark.django_db
__all__ = ["board_scene", "now"]


def test_nothing_is_drawn_ahead_of_a_budget_that_is_used_up(client, board_scene, team, lead, now):
    client.force_login(lead)
    assert "Dashed: ahead." in client.get(URL).content.decode()
    Budget.objects.update(spent_s=200 * 3600)
    [one] = team_board(lead, team, now=now).budgets
    assert draw(one, now).ahead == ""
    page = client.get(URL).content.decode()
    assert "It is used up." in page and "Upright: now." in page and "Dashed" not in page


def test_jobs_that_are_held_stand_apart_from_those_that_wait(
    client, board_scene, team, lead, alice, project, now
):
    for name in ("kept", "also kept"):
        submit(alice, project, name=name, hold=True, now=now)
    [person] = team_board(lead, team, now=now).people
    assert (person.gpus, person.waiting, person.held, person.used_gpu_s) == (2, 1, 2, 0)
    client.force_login(lead)
    page = client.get(URL).content.decode()
    assert "GPUs<br>now" in page and "Jobs<br>waiting" in page and "2 held" in page
    # Who holds GPUs and was charged nothing yet has not used nothing.
    assert "not yet" in page
