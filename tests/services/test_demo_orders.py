"""The demonstration by a button: asked for once, done by a worker, beside a scheduler at work."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import pytest
from django.apps import apps
from django.db import connections
from django.utils import timezone

from accounts.models import AuditEvent, DemoAct, DemoMark, DemoOrder, Team, User
from accounts.services import rename_team
from portal.management.demo import carrying
from scheduler.ledger.findings import Trouble
from scheduler.ledger.periods import Month
from scheduler.loop.cycle import Scheduler
from scheduler.loop.lease import acquire_lease, own_name
from scheduler.models import Job, Node, SchedulerLease
from scheduler.selectors.tables.beginning import beginning_of
from scheduler.services.demo.mixing import mixed_months
from scheduler.services.demo.ordering import MOST_TRIES, ask_for_demo, claim_order
from scheduler.services.errors import Conflict, Forbidden
from scheduler.states import JobState
from tests import scenes

ASIDE = {"django_session", "accounts_demoorder", "accounts_auditevent", "accounts_auditseal"}
# Made when they are first needed, and kept: which days were counted, who schedules.
ASIDE |= {"accounts_audithead", "scheduler_schedulerlease", "scheduler_cyclerecord"}


def counts() -> dict[str, int]:
    """Rows of every table that the demonstration fills."""
    models = apps.get_models(include_auto_created=True)
    found = {model._meta.db_table: model._default_manager.count() for model in models}
    return {table: count for table, count in found.items() if table not in ASIDE}


def ask(root: User, act: DemoAct = DemoAct.LOAD, **more: bool) -> DemoOrder:
    return ask_for_demo(actor=root, act=act, **more)


def tend(jobs: int = 6) -> DemoOrder:
    assert carrying.tend_demo(now=timezone.now(), jobs=jobs) == 1
    return DemoOrder.objects.get()


class Loop:
    """A scheduler that goes round and round in a thread of its own, as a worker carries it."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.scheduler = Scheduler(holder=own_name())
        self.rounds = self.without = 0
        self.errors: list[Exception] = []

    def __enter__(self) -> Loop:
        self._thread.start()
        self.wait_for_rounds(2)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(30)

    def wait_for_rounds(self, more: int) -> None:
        until, enough = time.monotonic() + 30, self.rounds + more
        while self.rounds < enough:
            assert time.monotonic() < until, self.errors
            time.sleep(0.01)

    def _run(self) -> None:
        while not self._over.wait(0.05):
            try:
                has_lease = self.scheduler.run_cycle(timezone.now()).has_lease
                self.rounds += has_lease
                self.without += not has_lease
            except Exception as error:
                self.errors.append(error)
        self.scheduler.release(timezone.now())
        connections.close_all()


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_it_comes_and_goes_beside_a_scheduler_at_work(root, alice, project):
    """Real work goes on before, between and after; nothing of the demonstration is left."""
    cluster = scenes.build_cluster(root, nodes=0)
    SchedulerLease.objects.all().delete()
    scenes.add_node(cluster, "real", 2, now=timezone.now())
    scenes.submit(alice, project, now=timezone.now())
    with Loop() as loop:
        _wait_until_started()
        before = counts()
        assert ask(root, is_beside=True).pk == ask(root, is_beside=True).pk
        assert not (order := tend()).is_refused, order.says
        assert "40 people" in order.says and Node.objects.count() == 9
        assert carrying.tend_demo(now=timezone.now()) == 0
        loop.wait_for_rounds(3)
        assert not User.objects.get(username="demo-noor").has_usable_password()
        waiting = Job.objects.filter(pool__name="demo-h100", state=JobState.QUEUED)
        assert waiting.exists(), "a scheduler has started work on nodes that nobody runs"
        ask(root, DemoAct.REMOVE)
        assert not (order := tend()).is_refused, order.says
        assert order.rows > 1000 and "0 are left" in order.says
        left = counts()
        loop.wait_for_rounds(2)
    for kept in ("scheduler_jobevent", "scheduler_hourssummed"):
        left.pop(kept), before.pop(kept)
    assert left == before
    assert loop.errors == []
    assert not DemoMark.objects.exists()


def _wait_until_started() -> None:
    until = time.monotonic() + 30
    while not Job.objects.filter(state=JobState.STARTING).exists():
        assert time.monotonic() < until, list(Job.objects.values_list("state", "wait_reason"))
        time.sleep(0.02)


@pytest.mark.django_db
def test_only_administrators_ask_and_only_for_what_there_is_to_do(root, alice, operator):
    for other in (alice, operator):
        with pytest.raises(Forbidden):
            ask(other)
    with pytest.raises(Conflict, match="no demonstration"):
        ask(root, DemoAct.REMOVE)
    first = ask(root)
    with pytest.raises(Conflict, match="about to load"):
        ask(root, DemoAct.REMOVE)
    assert AuditEvent.objects.filter(action="demo.ask_load", actor=root).count() == 1
    assert first.tries == 0
    tend(jobs=0)
    with pytest.raises(Conflict, match="already"):
        ask(root)


@pytest.mark.django_db
def test_a_worker_that_was_killed_is_followed_by_another(root):
    before, now = counts(), timezone.now()
    ask(root)
    dead, alive = "a-host x/1:1", own_name()
    assert claim_order(dead, has_ended=lambda _: False, now=now)
    assert claim_order(alive, has_ended=lambda _: False, now=now) is None
    assert counts() == before, "a worker that died left something"
    later = now + timedelta(minutes=11)
    assert claim_order(alive, has_ended=lambda _: False, now=later)
    again = claim_order(alive, has_ended=lambda name: name == alive, now=later)
    assert again is not None and again.tries == MOST_TRIES
    assert claim_order(alive, has_ended=lambda _: True, now=later) is None
    ended = DemoOrder.objects.get()
    assert ended.is_refused and "three times" in ended.says
    ask(root)
    assert "40 people" in tend().says
    assert acquire_lease("somebody", now=timezone.now()), "the lease was not given back"


@pytest.mark.django_db
def test_who_was_thought_dead_and_ends_late_changes_nothing(root, monkeypatch):
    """The claim is looked at in the transaction of the work."""
    ask(root)
    before = counts()
    note = carrying.note_made

    def overtaken(*words):
        note(*words)
        DemoOrder.objects.update(tries=2)

    monkeypatch.setattr(carrying, "note_made", overtaken)
    carrying.tend_demo(now=timezone.now(), jobs=0)
    assert counts() == before and not DemoMark.objects.exists()


@pytest.mark.django_db
def test_what_is_in_the_way_is_said_on_the_page(root, alice, project):
    cluster = scenes.build_cluster(root, nodes=0)
    scenes.add_node(cluster, "old", 2, now=timezone.now() - timedelta(days=40))
    scenes.submit(alice, project)
    ask(root)
    assert "real use" in tend().says
    ask(root, is_beside=True)
    told = tend()
    assert told.is_refused and "a database of its own" in told.says
    asked = beginning_of(root, now=timezone.now()).asked
    assert asked is not None and asked.is_refused and asked.says == told.says
    assert SchedulerLease.objects.get().holder == "test", "nobody's lease was to be taken"


@pytest.mark.django_db
def test_a_month_of_both_is_not_closed(root):
    here = Month.of(int(timezone.now().timestamp()))
    ask(root)
    tend()
    assert mixed_months(here) == []
    scenes.add_node(scenes.build_cluster(root, nodes=0), "real", 2, now=timezone.now())
    assert [one.trouble for one in mixed_months(here)] == [Trouble.DEMONSTRATION]
    assert mixed_months(Month.of(here.start_s - 1)) == []


@pytest.mark.django_db
def test_who_asked_is_on_record_and_others_events_stay(root, team):
    ask(root)
    tend()
    rename_team(actor=root, team=team, name="Sight")
    ask(root, DemoAct.REMOVE)
    assert "events of the audit stay" in tend().says
    assert AuditEvent.objects.filter(action="demo.remove", actor=root).count() == 1
    assert Team.objects.get(pk=team.pk).name == "Sight"
