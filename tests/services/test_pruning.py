"""Logs and files go when their time is over, by project; readings become hours."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.utils import timezone

from scheduler.models import (
    DeviceHour,
    DeviceSample,
    LogChunk,
    OutputFile,
    ReportFile,
    Retention,
)
from scheduler.selectors.logs import read_log
from scheduler.selectors.telemetry import job_series
from scheduler.services.errors import Forbidden, Invalid, NotFound
from scheduler.services.kept import pruning
from scheduler.services.kept.pruning import Pruned, prune_kept, set_retention, would_prune
from scheduler.services.kept.reports import prune_report_files
from scheduler.services.logs import log_folder
from scheduler.services.telemetry import prune_telemetry
from tests import scenes
from tests.scenes import NOON, at, ended, running, start, submit, sync, write_log, write_output
from tests.selectors.test_reports import opened

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=2, gpus=2)


@pytest.fixture
def over(cluster, alice, project):
    """A job that ended at noon with a log of 6 bytes and a file of 3."""
    job = submit(alice, project)
    attempt = start(job, cluster.node(1))
    sync(cluster.node(1), running(attempt))
    write_log(cluster.node(1), attempt, b"one\n", b"2\n")
    write_output(cluster.node(1), attempt, "a", b"abc", now=NOON)
    sync(cluster.node(1), ended(attempt, log_size=6), now=NOON)
    job.refresh_from_db()
    assert job.state == "succeeded"
    return job


def test_a_log_and_its_files_go_when_their_time_is_over(
    monkeypatch, tmp_path, cluster, alice, project, request
):
    # No other test's files lie there.
    monkeypatch.setattr(default_storage, "location", str(tmp_path))
    over = request.getfixturevalue("over")
    live = start(submit(alice, project), cluster.node(2))
    sync(cluster.node(2), running(live))
    write_log(cluster.node(2), live, b"still running\n")
    write_output(cluster.node(2), live, "b", b"kept")
    paths = [chunk.path for chunk in LogChunk.objects.filter(placement__attempt__job=over)]
    file = over.outputs.get()
    unnamed = f"{paths[0]}-of-a-late-call"
    default_storage.save(unnamed, ContentFile(b"late"))
    default_storage.save(f"{file.folder}/stored-twice", ContentFile(b"abc"))

    assert prune_kept(now=NOON + 90 * DAY) == Pruned()
    later = NOON + 400 * DAY
    assert prune_kept(now=later, dry_run=True) == Pruned(1, 1, 9)
    assert default_storage.exists(paths[0])
    assert prune_kept(now=later) == Pruned(1, 1, 9)
    assert prune_kept(now=later) == Pruned()

    assert not any(map(default_storage.exists, [*paths, unnamed, file.part_path(0)]))
    for folder in (log_folder(over.attempts.get().pk, 0), file.folder):
        assert not default_storage.exists(folder)
        assert not default_storage.exists(folder.rpartition("/")[0])
    file.refresh_from_db()
    assert (file.word, file.size) == ("pruned", 3)
    window = read_log(alice, over)
    assert window is not None
    assert (window.raw, window.is_complete, window.placement.log_pruned_at) == (b"", True, later)
    # What runs is not looked at, however long ago it began.
    assert LogChunk.objects.get().placement.attempt_id == live.pk
    assert OutputFile.objects.get(name="b").word == "whole"


def test_a_project_says_for_how_long_and_only_its_leads_do(over, project, lead, alice, carol):
    with pytest.raises(Forbidden):
        set_retention(actor=alice, project=project, log_days=1, file_days=None)
    with pytest.raises(NotFound):
        set_retention(actor=carol, project=project, log_days=1, file_days=None)
    with pytest.raises(Invalid, match="file_days"):
        set_retention(actor=lead, project=project, log_days=1, file_days=0)
    set_retention(actor=lead, project=project, log_days=500, file_days=2)
    assert prune_kept(now=NOON + 3 * DAY, dry_run=True) == Pruned(0, 1, 3)
    assert prune_kept(now=NOON + 400 * DAY, dry_run=True) == Pruned(0, 1, 3)
    assert prune_kept(now=NOON + 501 * DAY, dry_run=True) == Pruned(1, 1, 9)


def test_pruning_that_was_cut_short_is_finished_the_next_time(over, monkeypatch):
    later = NOON + 400 * DAY

    def cut(path: str) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(default_storage, "delete", cut)
        with pytest.raises(RuntimeError):
            prune_kept(now=later)
    assert prune_kept(now=later) == Pruned(1, 1, 9)
    assert not LogChunk.objects.exists()


def test_an_hours_pruning_ends_in_time_and_the_next_goes_on(over, monkeypatch):
    later = NOON + 400 * DAY
    assert prune_kept(now=later, within_s=-1) == Pruned()
    monkeypatch.setattr(pruning, "_ROWS", 1)  # the pieces of a log, slice by slice
    assert prune_kept(now=later, within_s=60) == Pruned(1, 1, 9)


def test_what_cannot_be_deleted_is_due_again_and_in_nobodys_way(
    over, cluster, alice, project, root, monkeypatch
):
    other = start(submit(alice, project), cluster.node(2))
    sync(cluster.node(2), running(other))
    write_log(cluster.node(2), other, b"one\n")
    write_output(cluster.node(2), other, "b", b"abc", now=NOON)
    sync(cluster.node(2), ended(other, log_size=4), now=NOON)
    for path in ("reports/a", "reports/b"):
        default_storage.save(path, ContentFile(b"x"))
        ReportFile.objects.create(
            asked_by=root, asked_at=NOON, slug="focus", period="2026-01", file_format="1.3",
            made_at=NOON, path=path,
        )  # fmt: skip
    file, later = over.outputs.get(), NOON + 4000 * DAY
    stuck = (LogChunk.objects.filter(placement__attempt__job=over).earliest("pk").path,
             file.part_path(0), "reports/a")  # fmt: skip
    delete = default_storage.delete

    def refusing(name):
        if name in stuck:
            raise PermissionError("read-only")
        delete(name)

    with monkeypatch.context() as patched:
        patched.setattr(default_storage, "delete", refusing)
        patched.setattr(pruning, "BATCH", 1)
        assert prune_kept(now=later) == Pruned(1, 1, 7)
        assert prune_report_files(now=later) == 1
    file.refresh_from_db()
    assert (file.pruned_at, file.stored) == (None, 3)
    assert all(map(default_storage.exists, stuck))
    assert prune_kept(now=later) == Pruned(1, 1, 9)
    assert prune_report_files(now=later) == 1
    assert not any(map(default_storage.exists, stuck))


def test_the_command_says_what_would_go(over, lead, project, capsys):
    call_command("prune", "--project", project.path, "--by", lead.username, "--file-days", "7")
    assert json.loads(capsys.readouterr().out)["file_days"] == 7
    words = ("--project", project.path, "--by", lead.username, "--sample-days", "8")
    call_command("prune", *words)
    said = json.loads(capsys.readouterr().out)
    assert (said["sample_days"], said["file_days"]) == (8, None)
    call_command("prune", "--dry-run")
    said = json.loads(capsys.readouterr().out)
    assert said["dry_run"] is True and said["samples"] == said["reports"] == 0


def test_a_trial_of_the_command_sets_no_days(over, lead, project, capsys):
    set_retention(actor=lead, project=project, log_days=500, file_days=500)
    ended_at = timezone.now() - 7 * DAY
    type(over).objects.filter(pk=over.pk).update(ended_at=ended_at)
    words = ("prune", "--dry-run", "--project", project.path, "--by", lead.username)
    call_command(*words, "--log-days", "3")
    said = json.loads(capsys.readouterr().out)
    assert (said["dry_run"], said["logs"], said["bytes"], said["log_days"]) == (True, 1, 6, 3)
    kept = Retention.objects.get()
    assert (kept.log_days, kept.file_days, kept.version) == (500, 500, 2)
    with pytest.raises(CommandError, match="log_days"):
        call_command(*words, "--log-days", "0")


def test_readings_become_hours_and_charts_go_on(cluster, alice, project):
    job = submit(alice, project)
    attempt = start(job, cluster.node(1))
    device = attempt.placements.get().allocations.get().device
    for minute in range(0, 180, 10):
        DeviceSample.objects.create(
            device=device,
            attempt=attempt,
            at=at(minute * 60),
            gpu_percent=minute,
            memory_used_mib=minute,
            power_watts=100,
            temperature_c=50 + minute / 10,
        )
    waste = opened(alice, "idle-waste")[0]
    # It is there because one reading of eighteen was of a GPU that did nothing.
    assert [row["readings"] for row in waste] == [18]
    # The third hour is partly younger than a day: it stays as it is.
    assert prune_telemetry(now=at(86_400 + 2.5 * 3600)) == 12
    hours = DeviceHour.objects.order_by("hour")
    assert [(one.hour, one.count, one.gpu_percent, one.memory_used_mib) for one in hours] == [
        (NOON, 6, 25.0, 50),
        (at(3600), 6, 85.0, 110),
    ]
    assert prune_telemetry(now=at(86_400 + 2.5 * 3600)) == 0
    assert opened(alice, "idle-waste")[0] == waste
    (series,) = job_series(alice, job, now=at(86_400 + 2.5 * 3600))
    assert series.at == [NOON, at(3600), *(at(minute * 60) for minute in range(120, 180, 10))]
    assert series.gpu_percent[:3] == [25.0, 85.0, 120.0]
    assert prune_kept(now=at(500 * 86_400), dry_run=True) == Pruned(samples=2)
    assert prune_kept(now=at(500 * 86_400)) == Pruned(samples=2)
    assert not DeviceHour.objects.exists()


@pytest.fixture
def read(over):
    """Two readings of the job's device, one by the hour, and an hour in which nobody had it."""
    attempt = over.attempts.get()
    device = attempt.placements.get().allocations.get().device
    shown = {"gpu_percent": 5, "memory_used_mib": 5, "power_watts": 9, "temperature_c": 40}
    DeviceSample.objects.create(device=device, attempt=attempt, at=NOON, **shown)
    DeviceHour.objects.create(device=device, attempt=attempt, hour=NOON, count=9, **shown)
    DeviceHour.objects.create(device=device, attempt=None, hour=at(3600), count=9, **shown)


def test_a_project_keeps_readings_for_fewer_days_or_more(
    over, read, project, other_project, lead, cluster, alice
):
    keeps = {"actor": lead, "project": project, "log_days": 900, "file_days": 900}
    now = NOON + 3 * DAY
    would = would_prune(**keeps, sample_days=2, now=now)
    assert would == Pruned(samples=2) and would.items == 2
    assert would_prune(**keeps, sample_days=4, now=now) == Pruned()
    with pytest.raises(Invalid, match="sample_days"):
        set_retention(**keeps, sample_days=0)
    set_retention(**keeps, sample_days=2)
    # What runs keeps its readings, and what nobody held goes by its age alone.
    live = start(submit(alice, project), cluster.node(2))
    device = live.placements.get().allocations.get().device
    shown = {"gpu_percent": 5, "memory_used_mib": 5, "power_watts": 9, "temperature_c": 40}
    DeviceSample.objects.create(device=device, attempt=live, at=NOON, **shown)
    assert prune_kept(now=now, dry_run=True) == Pruned(samples=2)
    assert DeviceSample.objects.count() == 2
    assert prune_kept(now=now) == Pruned(samples=2)
    assert prune_kept(now=now) == Pruned()
    assert DeviceSample.objects.get().attempt_id == live.pk
    assert DeviceHour.objects.get().attempt_id is None


def test_who_wants_more_days_than_the_default_has_them(over, read, project, lead):
    set_retention(actor=lead, project=project, log_days=900, file_days=900, sample_days=800)
    assert prune_kept(now=NOON + 700 * DAY) == Pruned(samples=1), "the hour nobody had it"
    assert prune_kept(now=NOON + 801 * DAY) == Pruned(samples=2)


def test_a_lead_sees_what_another_number_would_delete_and_nothing_goes(
    cluster, over, project, other_project, lead, alice
):
    later = NOON + 10 * DAY
    days = {"file_days": None, "now": later}
    assert would_prune(actor=lead, project=project, log_days=9, **days) == Pruned(1, 0, 6)
    assert would_prune(actor=lead, project=project, log_days=11, **days) == Pruned()
    assert LogChunk.objects.count() == 2
    with pytest.raises(Forbidden):
        would_prune(actor=alice, project=project, log_days=9, **days)
    with pytest.raises(Invalid):
        would_prune(actor=lead, project=project, log_days=0, **days)


def test_a_trial_of_the_default_counts_what_the_default_deletes(over, read, project, lead):
    """By the age of an hour, not by the end of its job, and hours alone."""
    device = DeviceHour.objects.filter(attempt__isnull=False).get().device
    late = over.attempts.get()
    shown = {"gpu_percent": 5, "memory_used_mib": 5, "power_watts": 9, "temperature_c": 40}
    DeviceHour.objects.create(device=device, attempt=late, hour=NOON + DAY, count=9, **shown)
    DeviceHour.objects.filter(attempt=None).delete()
    days = {"actor": lead, "project": project, "log_days": 900, "file_days": 900}
    set_retention(**days)
    for now in (NOON + 399 * DAY, NOON + 400.5 * DAY, NOON + 402 * DAY):
        would = would_prune(**days, sample_days=None, now=now)
        assert would == prune_kept(now=now, dry_run=True) == prune_kept(now=now)
    assert not DeviceHour.objects.exists() and DeviceSample.objects.count() == 1
