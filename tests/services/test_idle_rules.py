"""Rules for GPUs that do little: who sets them, what they may say, and what one would have done."""

from __future__ import annotations

from datetime import timedelta

import pytest

from accounts.models import AuditEvent
from scheduler.models import Attempt, IdleRule, LogChunk
from scheduler.services.errors import Forbidden, Invalid, NotFound
from scheduler.services.idling.rules import IdleTerms, end_idle_rule, set_idle_rule
from scheduler.services.idling.trying import try_idle_rule
from scheduler.services.telemetry import prune_telemetry
from tests import idling, scenes
from tests.idling import TERMS, later, rests, rule_for

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=2)


def test_leads_set_it_for_projects_and_operators_for_pools(
    root, lead, alice, carol, operator, project, cluster
):
    with pytest.raises(Forbidden, match="Leads"):
        rule_for(alice, project)
    with pytest.raises(NotFound):
        rule_for(carol, project)
    with pytest.raises(Forbidden, match="Operators"):
        rule_for(lead, cluster.pool)
    rule_for(operator, cluster.pool)
    rule = rule_for(lead, project)
    assert (rule.is_on, rule.version, rule.set_by) == (True, 1, lead)
    assert rule_for(lead, project).version == 1, "the same once more changes nothing"
    assert end_idle_rule(actor=lead, owner=project).version == 2
    assert not IdleRule.objects.get(project=project).is_on
    acts = AuditEvent.objects.filter(action__endswith="idle_rule").order_by("pk")
    assert [one.action for one in acts] == [
        "pool.idle_rule",
        "project.idle_rule",
        "project.idle_rule",
    ]
    assert acts[2].after == '{"is_on":false}'


@pytest.mark.parametrize(
    ("more", "field", "words"),
    [
        ({"act": "shrink"}, "act", "choose one of tell, pause, stop"),
        ({"act_minutes": None}, "act_minutes", "after how many minutes of notice"),
        ({"act": "tell"}, "act_minutes", "leave it empty"),
        ({"below_percent": 0}, "below_percent", "1 to 50 per cent"),
        ({"warn_minutes": 5}, "warn_minutes", "10 to 720 minutes"),
        ({"first_minutes": 2000}, "first_minutes", "0 to 1440 minutes"),
        ({"act_minutes": 1}, "act_minutes", "10 to 2880 minutes"),
        ({"keep_hours": 0}, "keep_hours", "1 to 168 hours"),
    ],
)
def test_what_cannot_be_is_refused_by_field(more, field, words, lead, project):
    with pytest.raises(Invalid) as refused:
        rule_for(lead, project, **more)
    assert refused.value.field == field and words in refused.value.detail
    assert not IdleRule.objects.exists()


def test_a_window_reaches_no_further_back_than_readings_are_kept(lead, project, settings):
    settings.TRAINYARD = {**settings.TRAINYARD, "sample_retention_s": 3600}
    with pytest.raises(Invalid, match="10 to 30 minutes"):
        rule_for(lead, project, warn_minutes=31)


def tried(lead, project, now, **more):
    terms = IdleTerms(**{**{name: getattr(TERMS, name) for name in TERMS.__slots__}, **more})
    return try_idle_rule(actor=lead, owner=project, terms=terms, days=7, now=now)


def test_a_trial_says_whom_it_would_have_warned_and_stopped_and_does_nothing(
    cluster, alice, lead, project
):
    idle = idling.runs(cluster, alice, project, name="sleepy")
    rests(idle, 0, 119)
    busy = idling.runs(cluster, alice, project, name="busy")
    rests(busy, 0, 119, percent=90)
    found = tried(lead, project, later(120))
    assert (found.attempts, found.warned, found.acted) == (2, 1, 1)
    (row,) = found.rows
    assert (row.name, row.owner, row.gpus) == ("sleepy", "alice", 1)
    assert (row.warned_at, row.act_at) == (later(30), later(45))
    assert found.freed_gpu_s == row.freed_gpu_s == 75 * 60
    told = tried(lead, project, later(120), act="tell", act_minutes=None)
    assert (told.warned, told.acted, told.freed_gpu_s) == (1, 0, 0)
    assert not IdleRule.objects.exists()


def test_a_trial_counts_lines_of_log_as_work(cluster, alice, lead, project):
    idle = idling.runs(cluster, alice, project)
    rests(idle, 0, 119)
    scenes.write_log(cluster.node(1), idle, b"one\n", b"two\n", b"three\n", b"four\n", b"five\n")
    for chunk, minute in zip(LogChunk.objects.order_by("pk"), (25, 44, 63, 82, 101), strict=True):
        LogChunk.objects.filter(pk=chunk.pk).update(created_at=later(minute))
    assert tried(lead, project, later(120)).warned == 0
    LogChunk.objects.all().update(created_at=later(40))
    found = tried(lead, project, later(120))
    assert (found.warned, found.rows[0].act_at) == (1, later(75))


def test_a_trial_reads_hours_too_and_refuses_what_cannot_be(cluster, alice, bob, lead, project):
    idle = idling.runs(cluster, alice, project)
    rests(idle, 0, 119)
    now = later(60 * 30)
    prune_telemetry(now=now)
    Attempt.objects.filter(pk=idle.pk).update(released_at=later(120))
    found = tried(lead, project, now)
    assert (found.warned, found.rows[0].act_at, found.freed_gpu_s) == (1, later(45), 75 * 60)
    assert found.exact_since == now - timedelta(days=1)
    with pytest.raises(Forbidden):
        tried(bob, project, now)
    with pytest.raises(Invalid) as refused:
        try_idle_rule(actor=lead, owner=project, terms=TERMS, days=29, now=now)
    assert refused.value.field == "days"


def test_a_trial_of_a_pool_costs_the_same_for_many(
    cluster, alice, project, operator, django_assert_max_num_queries
):
    for _ in range(2):
        rests(idling.runs(cluster, alice, project), 0, 60)
    with django_assert_max_num_queries(4):
        found = try_idle_rule(
            actor=operator, owner=cluster.pool, terms=TERMS, days=1, now=later(61)
        )
    assert found.warned == 2


def test_it_may_be_set_anew_after_it_was_off(lead, project):
    first = rule_for(lead, project)
    end_idle_rule(actor=lead, owner=project)
    again = set_idle_rule(actor=lead, owner=project, terms=TERMS)
    assert (again.pk, again.is_on, again.version) == (first.pk, True, 3)
