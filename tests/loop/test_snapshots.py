"""Recordings of the live cluster, and the answers that decide on it."""

from __future__ import annotations

import zlib

import pytest
from django.core.management import CommandError, call_command

from scheduler.engine.recording import read_recording, write_recording
from scheduler.engine.recording.recordings import Recording
from scheduler.services.nodes import create_pool
from tests.scenes import Cluster, add_node, at, submit

pytestmark = pytest.mark.django_db


def test_a_recorded_cluster_replays_to_the_identical_plan(
    scheduler, alice, project, tmp_path, capsys
):
    submit(alice, project, gpus_per_node=2, nodes=2)
    submit(alice, project, now=at(1))
    path = tmp_path / "now.snapshot"
    call_command("snapshot", "record", str(path))
    assert path.stat().st_mode & 0o777 == 0o600
    call_command("snapshot", "replay", str(path))
    recorded, replayed = capsys.readouterr().out.splitlines()
    assert "2 nodes, 2 jobs waiting" in recorded
    assert replayed.partition("sha256")[2] == recorded.partition("sha256")[2]
    with pytest.raises(CommandError, match="name a new file"):
        call_command("snapshot", "record", str(path))


def test_a_replay_that_differs_fails_and_shows_where(scheduler, alice, project, tmp_path):
    submit(alice, project)
    path = tmp_path / "now.snapshot"
    call_command("snapshot", "record", str(path))
    kept = read_recording(path.read_bytes())
    path.write_bytes(write_recording(Recording(kept.snapshot, kept.policy, b"{}")))
    with pytest.raises(CommandError, match="differs from the recorded one"):
        call_command("snapshot", "replay", str(path))
    path.write_bytes(zlib.compress(b"{"))
    with pytest.raises(CommandError, match="no recording"):
        call_command("snapshot", "replay", str(path))
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("snapshot", "replay", str(tmp_path / "missing"))


def test_explain_job_lists_checks_holders_and_options(
    scheduler, alice, project, cluster, root, capsys
):
    submit(alice, project, gpus_per_node=2, nodes=2, time_limit="2h")
    waits = submit(alice, project, gpus_per_node=2, now=at(1))
    add_node(Cluster(root, create_pool(actor=root, name="spare"), []), "s1", 2)
    scheduler.run_cycle(at(2))
    call_command("explain_job", str(waits.pk), "--options")
    out = capsys.readouterr().out
    assert "NOT capacity_busy: needs 2 GPUs free; 0 free" in out
    assert "ok  nodes_unhealthy: needs 1 node in order; 2 in order" in out
    assert "holds 4 GPUs until" in out
    assert "in pool spare instead of default: now" in out
