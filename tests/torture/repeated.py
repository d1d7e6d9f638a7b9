"""Of the story in which all went well: a schedule whose due times came to a job, a skip and a
pause; and its bends."""

from __future__ import annotations

_TERMS = {"overlap": "skip", "most_open": 2, "late_within_s": 60}
_PAUSED = "The schedule was paused before anybody looked."


def _run(pk, due_at, at, outcome, *, job=None, said="", inside=0):
    return {
        "id": pk, "schedule_id": 1, "due_at": due_at, "by_hand": False, "at": at,
        "outcome": outcome, "job_id": job, "said": said, "inside": inside,
        "noted_at": at + 0.2, **_TERMS,
    }  # fmt: skip


def _move(pk, was, to, versions, inside, noted_at, paused_at=None):
    return {
        "id": pk, "schedule_id": 1, "was": was, "next": to, "version_was": versions[0],
        "version": versions[1], "paused_at": paused_at, "counted_from": noted_at - 0.2,
        "inside": inside, "noted_at": noted_at,
    }  # fmt: skip


def repeated():
    """It is paused, goes on, and is paused again before its next time."""
    runs = [
        _run(1, 90.0, 91.0, "submitted", job=1, inside=7),
        _run(2, 105.0, 106.0, "skipped", said="Job 1 of it still waits or runs.", inside=8),
        _run(3, 120.0, 121.0, "skipped", said=_PAUSED, inside=9),
    ]
    return {
        "torture_run": runs,
        "torture_due": [
            _move(1, 90.0, 105.0, (1, 1), 7, 91.2),
            _move(2, 105.0, 120.0, (1, 1), 8, 106.2),
            _move(3, 120.0, None, (1, 2), 9, 121.2, paused_at=121.0),
            _move(4, None, 165.0, (2, 3), 10, 150.2),
            _move(5, 165.0, None, (3, 4), 11, 160.2, paused_at=160.0),
        ],
        "jobschedule": [
            {"id": 1, "next_due_at": None, "paused_at": 160.0, "owner_id": 1, "project_id": 5},
        ],
        "jobschedulerun": [dict(run) for run in runs],
    }  # fmt: skip


def told_of_schedules():
    """What its owner did; and who worked in a session that ended soon after nobody came in."""
    acts = [(121.5, "pause", 200), (149.0, "resuming", 0), (150.5, "resume", 200)]
    acts += [(160.5, "pause", 200)]
    return [
        *(
            {"kind": "schedule", "at": at, "schedule": 1, "what": what, "status": status}
            for at, what, status in acts
        ),
        {"kind": "repeated", "at": 158.0, "schedule": 1, "came": True},
        {"kind": "reached", "at": 102.0, "job": 1, "app": "shell", "ok": True, "again": False},
        {"kind": "reached", "at": 110.0, "job": 1, "app": "shell", "ok": False, "again": True},
    ]


def came_twice(story):
    story.tables["torture_run"].append({**story.row("torture_run", 2), "id": 4})


def job_of_two_times(story):
    story.row("torture_run", 2).update(outcome="submitted", job_id=1)


def was_for_somebody_else(story):
    story.row("jobschedule", 1).update(owner_id=2, owned_from=90.5)


def submitted_nothing(story):
    story.row("torture_run", 1)["job_id"] = None


def says_nothing(story):
    story.row("torture_run", 2)["said"] = ""


def is_passed_over(story):
    story.tables["torture_run"].remove(story.row("torture_run", 2))


def is_passed_over_by_a_pause(story):
    story.tables["torture_run"].remove(story.row("torture_run", 3))


def is_passed_over_by_a_change(story):
    story.row("torture_due", 2)["version"] = 2


def is_called_missed(story):
    story.row("torture_run", 2)["outcome"] = "missed"


def is_not_called_missed(story):
    story.row("torture_run", 2).update(at=412.0, late_within_s=0)


def is_another_time(story):
    story.row("torture_run", 2)["due_at"] = 100.0


def stands_for_others_in_silence(story):
    story.row("torture_due", 2)["was"] = 90.0


def is_carried_out_no_more(story):
    story.fact("repeated")["came"] = False


def _another(story, *, ended_at=300.0, **terms):
    """A second job of it, from 140 on, while the first goes on until 201."""
    job = {**story.row("job", 1), "id": 2, "name": "k2", "ended_at": ended_at}
    story.tables["job"].append(job)
    run = {**_run(4, 135.0, 139.8, "submitted", job=2, inside=12), **terms}
    story.tables["torture_run"].append(run)


def ran_beside_the_first(story):
    _another(story, overlap="queue", most_open=3)
    attempt = story.attempt(13, 1, 140.0, 300.0, "completed")
    story.tables["attempt"].append({**attempt, "job_id": 2})


def programs_ran_together(story):
    """The server called the first one over in time."""
    _another(story, overlap="queue", most_open=3)
    story.facts.append({**story.said("start", 13, 140.0), "job": 2})


def came_though_it_skips(story):
    _another(story)


def queued_one_too_many(story):
    _another(story, overlap="queue", most_open=1)


def replaced_and_went_on(story):
    _another(story, overlap="replace")
    story.row("job", 1)["ended_at"] = 390.0


def came_in_a_pause(story):
    story.tables["torture_run"].append(_run(4, 135.0, 139.8, "skipped", said="so", inside=12))


def came_after_its_end(story):
    gone = {"schedule": 1, "what": "delete", "status": 200}
    story.facts.append({"kind": "schedule", "at": 100.0, **gone})


def went_on_by_itself(story):
    story.facts.remove(story.fact("schedule", 1))


def is_paused_and_due(story):
    story.row("jobschedule", 1)["next_due_at"] = 165.0


def session_went_on_and_nobody_came_in(story):
    story.fact("reached", 1)["at"] = 40.0


def session_ended_without_a_reason(story):
    story.row("job", 1)["end_reason"] = ""


DUES = [
    *(came_twice, job_of_two_times, was_for_somebody_else, submitted_nothing, says_nothing),
    *(is_passed_over, is_passed_over_by_a_pause, is_passed_over_by_a_change),
    *(is_called_missed, is_not_called_missed, is_another_time),
    *(stands_for_others_in_silence, is_carried_out_no_more),
]
TURNS = [
    *(ran_beside_the_first, programs_ran_together, came_though_it_skips, queued_one_too_many),
    *(replaced_and_went_on, came_in_a_pause, came_after_its_end, went_on_by_itself),
    is_paused_and_due,
]
SESSIONS = [session_went_on_and_nobody_came_in, session_ended_without_a_reason]
