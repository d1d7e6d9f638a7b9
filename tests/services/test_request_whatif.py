"""What a grant would have done to the recent past: replayed, stored with its digest, and shown."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.utils import timezone

from accounts.services import move_team
from scheduler.models import Headroom, Job, Quota, WhatIf
from scheduler.services.errors import Forbidden
from scheduler.services.requesting.foreseeing import whatif
from scheduler.services.requesting.foreseeing.replaying import Question
from scheduler.services.rows import claims
from scheduler.services.sharing.budgets import set_budget
from scheduler.services.sharing.grants import add_grant
from scheduler.services.sharing.limits import set_quota
from scheduler.services.sharing.policies import set_policy
from scheduler.simulator.replay import Replay
from scheduler.states import RequestKind
from tests import scenes
from tests.requesting import DAY_S, ask, decide
from tests.scenes import at, submit

pytestmark = pytest.mark.django_db
NOW = at(2 * DAY_S)


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=4)


def past_job(who, project, submitted_s: float, run_s: float, gpus: int = 2) -> None:
    """A job that was submitted and ran; what it waited in truth is no matter."""
    job = submit(who, project, now=at(submitted_s), gpus_per_node=gpus)
    begin = at(submitted_s)
    Job.objects.filter(pk=job.pk).update(
        queued_at=begin, started_at=begin, ended_at=begin + timedelta(seconds=run_s)
    )


@pytest.fixture
def history(cluster, root, team, alice, project, carol, other_project):
    """Eight hours of work of two GPUs each, all at once; the team may hold two GPUs of four."""
    set_policy(actor=root, name="fifo")
    set_quota(actor=root, owner=team, maximum=2)
    for _ in range(4):
        past_job(alice, project, 0, 3600)
    past_job(carol, other_project, 60, 3600)
    return cluster


def test_a_higher_maximum_would_have_shortened_the_queue(history, team, alice, lead):
    request = ask(alice, team, kind="maximum", amount=2, now=NOW)
    row = whatif.ask_whatif(actor=lead, request=request, now=NOW)
    assert row.progress == "waiting"
    assert whatif.simulate_waiting(now=NOW) == 1
    row.refresh_from_db()
    assert (row.progress, row.done_steps) == ("done", 3)
    assert row.digest == whatif.digest_of(row.answer, row.engine)
    teams = {one["name"]: one for one in row.answer["teams"]}
    # One after the other: the last waits three hours. Two at a time: one. Half is one GPU more.
    assert teams["vision"]["p50_s"][0] == 5400
    assert teams["vision"]["p90_s"][0] == pytest.approx(3 * 3600 * 0.9, abs=1)
    assert teams["vision"]["p90_s"][2] == pytest.approx(3600, abs=61)
    assert teams["vision"]["p90_s"][1] == teams["vision"]["p90_s"][0]
    # What the team takes at once, the others wait for.
    assert teams["speech"]["p90_s"][0] == 0
    assert teams["speech"]["p90_s"][2] > 3000
    assert teams["vision"]["is_news"]
    assert teams["speech"]["is_news"]
    assert row.answer["question"]["amounts"] == [0, 1, 2]
    assert row.answer["monthly_cost"][2] == "5184.0000000000"
    assert row.answer["capacity"]["in_service"] == 4
    assert row.answer["utilisation"][2] > row.answer["utilisation"][0]


def test_the_decision_keeps_what_was_seen(history, team, alice, lead):
    request = ask(alice, team, kind="maximum", amount=2, now=NOW)
    row = whatif.ask_whatif(actor=lead, request=request, now=NOW)
    assert whatif.ask_whatif(actor=lead, request=request, now=NOW).pk == row.pk
    whatif.simulate_at_once(row, now=NOW)
    decided = decide(lead, request, now=NOW).decisions.get()
    assert decided.whatif_id == row.pk


def test_no_worker_is_told_of_what_is_answered_at_once(
    history, team, alice, lead, monkeypatch, django_capture_on_commit_callbacks
):
    """A worker that took it first would leave whoever waits with a half answer."""
    request = ask(alice, team, kind="maximum", amount=2, now=NOW)
    with django_capture_on_commit_callbacks() as told:
        row = whatif.ask_whatif(actor=lead, request=request, now=NOW)
    assert told == []
    monkeypatch.setattr(whatif, "MOST_JOBS_AT_ONCE", 1)
    with django_capture_on_commit_callbacks() as told:
        assert whatif.simulate_at_once(row, now=NOW).progress == "waiting"
    assert len(told) == 1
    assert whatif.simulate_waiting(now=NOW) == 1


def test_without_a_history_it_says_so(cluster, team, project, alice, lead):
    request = ask(alice, team, amount=1)
    row = whatif.ask_whatif(actor=lead, request=request, now=at(0))
    whatif.simulate_waiting(now=at(0))
    row.refresh_from_db()
    assert (row.progress, row.answer["teams"], row.answer["jobs"]) == ("empty", [], 0)
    assert row.answer["capacity"]["guaranteed"] == [0, 1]


def test_a_guarantee_beyond_what_is_there_is_told(cluster, team, project, alice, lead):
    request = ask(alice, team, amount=6)
    row = whatif.ask_whatif(actor=lead, request=request, now=at(0))
    whatif.simulate_waiting(now=at(0))
    row.refresh_from_db()
    assert row.answer["capacity"]["oversubscribed_by"] == [0, 0, 2]


def seen(lead, request):
    row = whatif.ask_whatif(actor=lead, request=request, now=at(0))
    whatif.simulate_waiting(now=at(0))
    row.refresh_from_db()
    return row.answer


def test_a_guarantee_is_held_against_all_it_is_part_of(
    root, team, other_team, other_project, carol
):
    """By hand it is refused: four of any model are guaranteed already, of the four there are."""
    scenes.build_cluster(root, nodes=1, gpus=4)
    set_quota(actor=root, owner=team, guaranteed=4)
    request = ask(carol, other_team, gpu_model=scenes.MODEL, amount=4)
    capacity = seen(root, request)["capacity"]
    assert (capacity["guaranteed"], capacity["oversubscribed_by"]) == ([4, 6, 8], [0, 2, 4])
    assert (capacity["is_wider"], capacity["gpu_model"]) == (True, "")


def test_headroom_and_grants_that_begin_within_its_time_are_counted(
    root, cluster, team, project, other_team, alice
):
    Headroom.objects.create(pool=cluster.pool, gpu_model=scenes.MODEL, gpus=1)
    set_quota(actor=root, owner=other_team, guaranteed=1)
    add_grant(
        actor=root, quota=Quota.objects.get(), guaranteed=1, maximum=0, now=at(0),
        valid_from=at(2 * DAY_S), valid_until=at(3 * DAY_S),
    )  # fmt: skip
    capacity = seen(root, ask(alice, team, amount=2))["capacity"]
    assert (capacity["guaranteed"], capacity["headroom"]) == ([2, 3, 4], 1)
    assert capacity["oversubscribed_by"] == [0, 0, 1]


def test_a_team_below_another_has_its_guarantee_within_that_ones(
    root, cluster, team, other_team, other_project, carol
):
    set_quota(actor=root, owner=team, guaranteed=4)
    move_team(actor=root, team=other_team, parent=team)
    capacity = seen(root, ask(carol, other_team, amount=2))["capacity"]
    assert (capacity["guaranteed"], capacity["oversubscribed_by"]) == ([4, 4, 4], [0, 0, 0])


def test_what_a_budget_has_left_is_that_of_the_time_asked_for(root, cluster, team, project, alice):
    for first, last, hours in ((-DAY_S, DAY_S, 7), (DAY_S, 9 * DAY_S, 50)):
        set_budget(
            actor=root, owner=team, gpu_hours=hours, valid_from=at(first), valid_until=at(last),
            now=at(0),
        )  # fmt: skip
    times = {"valid_from": at(2 * DAY_S), "valid_until": at(5 * DAY_S)}
    later = ask(alice, team, kind="budget", amount=4, **times)
    assert seen(root, later)["budget_hours_left"] == [50, 52, 54]


def test_a_project_is_replayed_apart_from_its_team(history, root, team, project, alice):
    set_quota(actor=root, owner=project, maximum=2)
    question = Question(project, RequestKind.MAXIMUM, None, "", (2,))
    # The team's own maximum still binds.
    before, after = whatif.estimate(question, now=NOW) or (0, 0)
    assert before == after > 0
    set_quota(actor=root, owner=team, maximum=4)
    before, after = whatif.estimate(question, now=NOW) or (0, 0)
    assert after < before


def test_what_is_granted_on_one_quota_leaves_the_others_as_they_are(history, root, team):
    """Eight of all pools and two of this one: with eight more of all pools, the two still bind."""
    set_quota(actor=root, owner=team, maximum=8)
    set_quota(actor=root, owner=team, pool=history.pool, maximum=2)
    question = Question(team, RequestKind.MAXIMUM, None, "", (8,))
    before, after = whatif.estimate(question, now=NOW) or (0, 0)
    assert before == after > 0
    question = Question(team, RequestKind.MAXIMUM, history.pool, "", (2,))
    before, after = whatif.estimate(question, now=NOW) or (0, 0)
    assert after < before


def test_what_breaks_is_kept_as_failed_and_may_be_tried_again(
    history, team, alice, lead, monkeypatch
):
    request = ask(alice, team, kind="maximum", amount=2, now=NOW)
    row = whatif.ask_whatif(actor=lead, request=request, now=NOW)

    def broken(*_args, **_more):
        raise ValueError("planted")

    monkeypatch.setattr(whatif, "replay_past", broken)
    assert whatif.simulate(row, now=NOW).progress == "failed"
    assert whatif.ask_whatif(actor=lead, request=request, now=NOW).pk != row.pk


def test_a_simulation_whose_worker_died_is_taken_up_again(history, team, alice, lead):
    request = ask(alice, team, kind="maximum", amount=2, now=NOW)
    row = whatif.ask_whatif(actor=lead, request=request, now=NOW)
    assert claims.claim(row) and whatif.simulate_waiting(now=NOW) == 0
    silent = timezone.now() - claims.STUCK_AFTER - timedelta(seconds=1)
    WhatIf.objects.update(claimed_at=silent)
    assert whatif.simulate_waiting(now=NOW) == 1
    row.refresh_from_db()
    assert row.progress == "done"


def test_one_that_waited_long_is_worked_out_once(history, team, alice, lead, monkeypatch):
    """However long ago it was asked: a second worker leaves alone what the first is at."""
    request = ask(alice, team, kind="maximum", amount=2, now=NOW)
    whatif.ask_whatif(actor=lead, request=request, now=NOW)
    replay, second = whatif.replay_past, []

    def meanwhile(*given, **more):
        if not second:
            second.append(None)
            second[0] = whatif.simulate_waiting(now=NOW + timedelta(hours=1))
        return replay(*given, **more)

    monkeypatch.setattr(whatif, "replay_past", meanwhile)
    assert whatif.simulate_waiting(now=NOW + timedelta(hours=1)) == 1
    assert second == [0]


def test_a_replay_of_many_minutes_says_that_it_goes_on(history, team, alice, lead, monkeypatch):
    """A minute goes by with each event of it; nobody takes it up meanwhile."""
    request = ask(alice, team, kind="maximum", amount=2, now=NOW)
    row = whatif.ask_whatif(actor=lead, request=request, now=NOW)
    clock, step, taken = [timezone.now()], Replay.step, []

    def slowly(replay):
        step(replay)
        clock[0] += timedelta(minutes=1)
        taken.append(claims.waiting(WhatIf.objects.all()).exists())

    monkeypatch.setattr(claims, "timezone", SimpleNamespace(now=lambda: clock[0]))
    monkeypatch.setattr(Replay, "step", slowly)
    assert whatif.simulate_waiting(now=NOW) == 1
    row.refresh_from_db()
    assert (row.progress, any(taken), len(taken) > 15) == ("done", False, True)


def test_who_has_lost_it_stops_at_the_next_event(history, team, alice, lead, monkeypatch):
    request = ask(alice, team, kind="maximum", amount=2, now=NOW)
    whatif.ask_whatif(actor=lead, request=request, now=NOW)
    step, steps = Replay.step, []

    def forgotten(replay):
        WhatIf.objects.all().delete()
        monkeypatch.setattr(claims, "STUCK_AFTER", timedelta(0))
        steps.append(step(replay))

    monkeypatch.setattr(Replay, "step", forgotten)
    assert whatif.simulate_waiting(now=NOW) == 1
    assert len(steps) == 1


def test_who_was_silent_too_long_leaves_it_to_who_took_it_up(history, team, alice, lead):
    request = ask(alice, team, kind="maximum", amount=2, now=NOW)
    row = whatif.ask_whatif(actor=lead, request=request, now=NOW)
    other = WhatIf.objects.get(pk=row.pk)
    assert claims.claim(row) and not claims.claim(other)
    WhatIf.objects.update(claimed_at=timezone.now() - timedelta(hours=1))
    other.refresh_from_db()
    assert claims.claim(other)
    whatif.simulate(row, now=NOW)
    other.refresh_from_db()
    assert (other.progress, other.done_steps, other.digest) == ("running", 0, "")


def test_who_has_no_part_in_it_starts_none(history, team, alice, bob, lead):
    request = ask(alice, team, kind="maximum", amount=2, now=NOW)
    with pytest.raises(Forbidden):
        whatif.ask_whatif(actor=bob, request=request, now=NOW)
