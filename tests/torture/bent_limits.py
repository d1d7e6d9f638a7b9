"""Quotas and budgets of the good history, bent."""

from __future__ import annotations


def quota_overdrawn(story):
    story.row("quota", 1)["maximum"] = 0


def quota_of_the_team_overdrawn(story):
    story.row("quota", 2)["maximum"] = 0


def quota_of_the_organisation_overdrawn(story):
    story.row("quota", 3).update(pool_id=2, gpu_model="M", maximum=0)


def quota_of_a_pool_overdrawn_by_who_waits_in_another_now(story):
    story.row("quota", 1).update(pool_id=2, maximum=0)
    story.row("job", 1)["pool_id"] = 9


def two_projects_overdraw_their_organisation(story):
    """Each is within what is its own."""
    story.tables["job"].append({**story.row("job", 1), "id": 2, "name": "k2", "project_id": 8})
    story.tables["attempt"].append({**story.attempt(13, 1, 131.0, 140.0, "completed"), "job_id": 2})
    story.tables["placement"].append(story.placement(23, 13, "completed", 0, 0))
    story.tables["device"].append({**story.row("device", 3), "id": 4, "uuid": "GPU-4"})
    spans = {"acquired_at": 131.0, "released_at": 140.0}
    story.tables["allocation"].append({"id": 3, "placement_id": 23, "device_id": 4, **spans})
    story.row("quota", 6)["maximum"] = 1


def quota_miscounted(story):
    story.row("quota", 1)["held"] = 1


def quota_of_the_team_miscounted(story):
    story.row("quota", 2)["held_milli"] = 500


def budget_overdrawn(story):
    story.row("budget", 6)["spent_s"] = 101  # what was carried over is part of the hundred


def money_overdrawn(story):
    story.row("budget", 7)["committed_money"] = 401


def hold_unsettled(story):
    story.row("budgethold", 1)["settled_at"] = None


def more_is_held_than_a_price_pays(story):
    story.row("job", 1)["max_cost_steps"] = 5
    story.row("budgethold", 1).update(settled_at=None, money=6)


def budget_overdrawn_for_a_while(story):
    """Two attempts at once may take 160 of 100, though neither does."""
    story.row("budgethold", 1)["settled_at"] = 150.0


def budget_raised_too_late(story):
    story.row("budget", 6)["commits_at"] = "start"
    for at, limit in ((90.0, 50), (140.0, 100)):
        story.facts.append({"kind": "budget", "at": at, "gpu_seconds": limit})


QUOTAS = [
    quota_overdrawn,
    quota_of_the_team_overdrawn,
    quota_of_the_organisation_overdrawn,
    quota_of_a_pool_overdrawn_by_who_waits_in_another_now,
    two_projects_overdraw_their_organisation,
    quota_miscounted,
    quota_of_the_team_miscounted,
]
BUDGETS = [
    budget_overdrawn,
    money_overdrawn,
    hold_unsettled,
    more_is_held_than_a_price_pays,
    budget_overdrawn_for_a_while,
    budget_raised_too_late,
]
