"""The health page: what is well is green, what is not says what to do, in as many statements."""

from __future__ import annotations

import os
import socket
from datetime import timedelta

import pytest
from django.utils import timezone

from portal import beats
from portal.celery import EVERY_S
from portal.fallen import note_fallen
from portal.pages.ops.regular import DOES
from scheduler.loop.lease import own_name
from scheduler.models import (
    InvariantCheck,
    Job,
    Node,
    OutboundMail,
    Reconciliation,
    SchedulerLease,
)
from scheduler.services.nodes.recounting import begin_recount
from scheduler.services.transitions import move_job
from scheduler.states import JobState, NodeState
from tests import scenes

pytestmark = pytest.mark.django_db
HEALTH = "/ops/health/"


class Broker:
    """As much of one as the notes of tasks need."""

    def __init__(self) -> None:
        self.notes: dict[bytes, bytes] = {}

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def hset(self, _key: str, task: str, said: str) -> None:
        self.notes[task.encode()] = said.encode()

    def hsetnx(self, _key: str, task: str, said: str) -> None:
        self.notes.setdefault(task.encode(), said.encode())

    def hgetall(self, _key: str) -> dict[bytes, bytes]:
        return self.notes


@pytest.fixture
def broker(monkeypatch):
    kept = Broker()
    monkeypatch.setattr(beats, "_broker", lambda: kept)
    return kept


def tones(page) -> dict[str, str]:
    return {check.name: str(check.tone) for check in page.context["checks"]}


def test_all_is_well_where_everything_runs(client, operator, root, broker, settings, tmp_path):
    now = timezone.now()
    scenes.build_cluster(root, nodes=1, gpus=1)
    Reconciliation.objects.create(at=now - timedelta(hours=3), holds=True)
    InvariantCheck.objects.create(
        at=now - timedelta(hours=2), since=None, took_s=1.0, is_whole=True, broken=0
    )
    for task in EVERY_S:
        beats.note_run(task, succeeded=True, now=now)
    stamp = tmp_path / "backed-up"
    stamp.touch()
    # The kernel's clock is not the one of TRAINYARD_TEST_NOW.
    os.utime(stamp, (now.timestamp(), now.timestamp()))
    settings.BACKUP_STAMP = str(stamp)
    client.force_login(operator)
    page = client.get(HEALTH)
    wanted = dict.fromkeys(tones(page), "good") | {"Disk": tones(page)["Disk"]}
    assert tones(page) == wanted


def test_every_regular_task_says_what_it_does():
    assert set(DOES) == {name.rpartition(".")[2] for name in EVERY_S}


def test_what_is_late_or_down_says_what_to_do(
    client, operator, alice, project, root, broker, django_assert_max_num_queries
):
    now, hour = timezone.now(), timedelta(hours=1)
    scenes.build_cluster(root, nodes=2, gpus=1)
    client.force_login(operator)
    client.get(HEALTH)
    with django_assert_max_num_queries(6):  # 3 for who asks, may what, is told
        client.get(HEALTH)
    SchedulerLease.objects.update(expires_at=now)
    Node.objects.update(state=NodeState.SILENT, last_seen_at=now - hour)
    for number in range(3):
        job = scenes.submit(alice, project, name=f"unseen{number}", now=now - hour)
        Job.objects.filter(pk=job.pk).update(wait_reason="evaluating")
        OutboundMail.objects.create(
            key=str(number), person=alice, subject="x", text="x", created_at=now - 3 * hour,
            not_before=now + hour / 2, tries=5,
        )  # fmt: skip
    Reconciliation.objects.create(at=now, holds=False)
    InvariantCheck.objects.create(
        at=now, since=now - hour, took_s=1.0, is_whole=True, broken=2, breaks=["I2: a", "I2: b"]
    )
    beats.note_run("scheduler.tasks.seal_audit", succeeded=False, now=now)
    with django_assert_max_num_queries(6):
        page = client.get(HEALTH)
    found = tones(page)
    for name in ("Workers", "Scheduler", "Waiting jobs", "Agents", "Mails", "Books", "Promises"):
        assert found[name] == "bad", name
    assert all(check.remedy for check in page.context["checks"] if check.tone == "bad")
    assert "failed at last: seal audit" in page.content.decode()
    assert page.context["tasks"][0].does == "Seals the audit trail"
    assert '<span class="id">seal audit</span>' in page.content.decode()
    assert "broken 2 times. The first: I2: a." in page.content.decode()
    begin_recount(now=now)
    said = "2 silent; nothing starts: after the restore 2 did not say what runs there."
    assert said in client.get(HEALTH).content.decode()


def test_a_job_that_waits_again_is_late_by_that_alone(
    client, operator, alice, project, root, broker
):
    now = timezone.now()
    scenes.build_cluster(root, nodes=1, gpus=1)
    client.force_login(operator)
    job = scenes.submit(alice, project, now=now - timedelta(days=3))
    assert tones(client.get(HEALTH))["Waiting jobs"] == "bad"
    scenes.start(job, Node.objects.get(), now=now - timedelta(days=2))
    job.refresh_from_db()
    move_job(job, JobState.QUEUED, now=now - timedelta(seconds=5), kind="requeued")
    assert tones(client.get(HEALTH))["Waiting jobs"] == "good"


def test_a_fresh_install_is_well(client, operator, root, broker, settings, tmp_path):
    """What happens once a day has not happened on the first one: neither good nor a fault."""
    now = timezone.now()
    scenes.build_cluster(root, nodes=1, gpus=1)
    SchedulerLease.objects.update_or_create(
        name="scheduler",
        defaults={"holder": own_name(), "token": 1, "expires_at": now + timedelta(minutes=1)},
    )
    beats.note_run("scheduler.tasks.seal_audit", succeeded=True, now=now)
    client.force_login(operator)
    page = client.get(HEALTH)
    found = tones(page)
    assert {found[name] for name in ("Workers", "Scheduler")} == {"good"}
    assert {found[name] for name in ("Books", "Promises")} == {"unknown"}
    assert (
        f"Jobs are started by process {os.getpid()} on {socket.gethostname()}."
        in page.content.decode()
    )
    words = {(task.words, str(task.tone)) for task in page.context["tasks"]}
    assert words == {("in time", "good"), ("not due yet", "unknown")}
    assert page.content.decode().count("not checked yet") == 3, "each, and how many"
    broker.notes[beats.BEGAN.encode()] = f"{(now - timedelta(days=4)).timestamp():.0f} ok".encode()
    found = tones(client.get(HEALTH))
    assert {found[name] for name in ("Books", "Promises")} == {"look"}


@pytest.mark.once
def test_without_a_broker_the_page_says_so_and_tasks_go_on(client, operator, monkeypatch):
    def away() -> object:
        raise OSError("refused")

    monkeypatch.setattr(beats, "_broker", away)
    beats.note_run("scheduler.tasks.seal_audit", succeeded=True, now=timezone.now())
    client.force_login(operator)
    found = tones(client.get(HEALTH))
    assert (found["Broker"], found["Workers"]) == ("bad", "look")


def test_a_run_in_a_time_to_come_is_no_run(client, operator, root, broker):
    """Beat and its notes stand still while the clock catches up, if it was put back."""
    now = timezone.now()
    for task in EVERY_S:
        beats.note_run(task, succeeded=True, now=now + timedelta(hours=2))
    client.force_login(operator)
    page = client.get(HEALTH)
    assert tones(page)["Workers"] == "bad"
    assert {str(task.tone) for task in page.context["tasks"]} == {"look"}
    beats.note_run("scheduler.tasks.seal_audit", succeeded=True, now=now)
    page = client.get(HEALTH)
    assert tones(page)["Workers"] == "look"
    assert "the clock was put back" in page.content.decode()


def test_programs_that_do_not_stay_up_are_named_first(client, operator, broker, settings, tmp_path):
    settings.STATE_DIR = tmp_path
    client.force_login(operator)
    assert "Programs" not in tones(client.get(HEALTH))
    note_fallen(tmp_path, {"background": timezone.now().timestamp()})
    page = client.get(HEALTH)
    assert next(iter(tones(page).items())) == ("Programs", "bad")
    assert "Does not stay up: background (again at " in page.content.decode()
