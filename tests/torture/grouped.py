"""Of the story in which all went well: its job is of a group; and what breaks I37."""

from __future__ import annotations

GROUPED = {"group_name": "push"}
TOLD = {"kind": "grouped", "at": 90.0, "key": "k1", "group": "push", "policy": "wait"}


def _job(story, pk, **more):
    """One more job, of another group."""
    job = {**story.row("job", 1), "id": pk, "name": f"k{pk}", "group_name": "night"}
    story.tables["job"].append({**job, **more})


def _event(story, pk, job, kind, to):
    event = story.event(1, None, kind, "", to)
    story.tables["jobevent"].append({**event, "id": pk, "job_id": job})


def _both_come(story):
    """The second one, and then the third."""
    _event(story, 21, 2, "submitted", "queued")
    _event(story, 22, 3, "submitted", "queued")


def older_waits(story):
    _job(story, 2, state="held", ended_at=None)
    _job(story, 3)


def older_was_left_and_cancelled_later(story):
    _job(story, 2, state="cancelled", end_reason="cancelled_by_user")
    _job(story, 3)
    _both_come(story)
    _event(story, 23, 2, "cancelled", "cancelled")


def older_ended_for_one_that_came_later_still(story):
    _job(story, 2, state="cancelled", end_reason="superseded", end_facts={"newer": "job 4"})
    _job(story, 3)
    _job(story, 4)
    _both_come(story)
    _event(story, 23, 2, "cancelled", "cancelled")


def older_began(story):
    _job(story, 2)
    _job(story, 3)
    _both_come(story)
    _event(story, 23, 2, "assigned", "starting")
    attempt = story.attempt(13, 1, 140.0, 150.0, "completed")
    story.tables["attempt"].append({**attempt, "job_id": 2})


def ended_for_anothers(story):
    _job(story, 2, state="cancelled", end_reason="superseded", end_facts={"newer": "job 3"})
    _job(story, 3, owner_id=2)


def ended_for_an_older_one(story):
    _job(story, 2)
    _job(story, 3, state="cancelled", end_reason="superseded", end_facts={"newer": "job 2"})


def ended_for_nothing(story):
    _job(story, 2, state="cancelled", end_reason="superseded", end_facts={})


def programs_ran_together(story):
    """The server called the first one over in time."""
    _job(story, 2, group_name="push")
    story.facts.append({**TOLD, "key": "k2", "policy": "stop"})
    story.facts.append({**story.said("start", 13, 150.0), "job": 2})


GROUPS = [
    *(older_waits, older_was_left_and_cancelled_later, older_began),
    *(older_ended_for_one_that_came_later_still, programs_ran_together),
    *(ended_for_anothers, ended_for_an_older_one, ended_for_nothing),
]
