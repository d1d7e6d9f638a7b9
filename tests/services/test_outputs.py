"""Output files: taken in parts, whole only with their digest, within caps, read by few."""

from __future__ import annotations

import hashlib
from datetime import timedelta

import pytest
from django.core.files.storage import default_storage

from scheduler.models import Attempt, Node, OutputFile
from scheduler.selectors.kept.outputs import get_output, outputs_of
from scheduler.services.errors import Conflict, Forbidden, Invalid, LogGap, NotFound
from scheduler.services.kept.outputs import append_output, read_parts, take_output_list
from scheduler.services.kept.pruning import Pruned, prune_kept, would_prune
from scheduler.states import EndReason
from scheduler.wire.outputs import (
    OUTPUT_PART,
    OutputEntry,
    OutputList,
    OutputRefusal,
    problem_of_name,
)
from tests import scenes
from tests.scenes import NOON, at, ended, running, start, submit, sync, write_output

pytestmark = pytest.mark.django_db
LONG = bytes(range(256)) * (OUTPUT_PART // 256) + b"and a little more"


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=2, gpus=2)


@pytest.fixture
def attempt(cluster, alice, project):
    return start(submit(alice, project, retries=1), cluster.node(1))


def told(*named: tuple[str, bytes]) -> OutputList:
    return OutputList(
        tuple(OutputEntry(name, len(raw), hashlib.sha256(raw).hexdigest()) for name, raw in named)
    )


def test_a_file_arrives_in_parts_and_goes_on_where_it_stopped(cluster, attempt, alice, client):
    who = {"node": cluster.node(1), "fence": attempt.pk, "rank": 0}
    (wish,) = take_output_list(**who, found=told(("model/last.pt", LONG))).wanted
    assert (wish.name, wish.offset) == ("model/last.pt", 0)
    first = LONG[:OUTPUT_PART]
    with pytest.raises(LogGap):
        append_output(**who, number=wish.number, offset=OUTPUT_PART, part=LONG[OUTPUT_PART:])
    with pytest.raises(Invalid):
        append_output(**who, number=wish.number, offset=0, part=LONG[:100])
    for _ in range(2):  # a reply was lost: the same part again changes nothing
        ack = append_output(**who, number=wish.number, offset=0, part=first)
        assert ack.size == OUTPUT_PART
    assert outputs_of(alice, attempt.job).is_arriving
    with pytest.raises(Conflict, match="not arrived"):
        get_output(alice, attempt.job, wish.number)
    # Nothing is on its way from a node that is gone.
    Node.objects.filter(pk=cluster.node(1).pk).update(state="lost")
    gone = outputs_of(alice, attempt.job)
    assert (gone.is_arriving, gone.away) == (False, (cluster.node(1).name,))
    client.force_login(alice)
    page = client.get(f"/jobs/{attempt.job_id}/files/").content.decode()
    assert f"some are on {cluster.node(1).name}, which is not heard" in page
    assert "on their way" not in page
    Node.objects.filter(pk=cluster.node(1).pk).update(state="ready")
    # The agent was started again and lists anew.
    (again,) = take_output_list(**who, found=told(("model/last.pt", LONG))).wanted
    assert (again.number, again.offset) == (wish.number, OUTPUT_PART)
    append_output(**who, number=wish.number, offset=OUTPUT_PART, part=LONG[OUTPUT_PART:])
    row = get_output(alice, attempt.job, wish.number)
    assert b"".join(read_parts(row)) == LONG
    assert b"".join(read_parts(row, OUTPUT_PART + 4)) == LONG[OUTPUT_PART + 4 :]
    assert take_output_list(**who, found=told(("model/last.pt", LONG))).wanted == ()


def test_a_file_that_changed_meanwhile_is_dropped_with_the_reason(cluster, attempt, alice):
    who = {"node": cluster.node(1), "fence": attempt.pk, "rank": 0}
    (wish,) = take_output_list(**who, found=told(("a", b"before"))).wanted
    with pytest.raises(Conflict, match="written to"):
        append_output(**who, number=wish.number, offset=0, part=b"after!")
    row = OutputFile.objects.get()
    assert (row.word, row.stored) == ("refused", 0)
    assert not default_storage.exists(row.part_path(0))


def test_a_file_of_which_a_stored_part_is_gone_is_sent_anew(cluster, attempt, alice):
    """As after a restore of older files: repeated, the last part would fail for ever."""
    content = b"a" * OUTPUT_PART + b"tail"
    who = {"node": cluster.node(1), "fence": attempt.pk, "rank": 0}
    entry = OutputEntry("model.pt", len(content), hashlib.sha256(content).hexdigest())
    [wish] = take_output_list(**who, found=OutputList((entry,)), now=NOON).wanted
    append_output(**who, number=wish.number, offset=0, part=content[:OUTPUT_PART])
    row = OutputFile.objects.get()
    default_storage.delete(row.part_path(0))
    with pytest.raises(LogGap) as gap:
        append_output(**who, number=wish.number, offset=OUTPUT_PART, part=b"tail")
    assert gap.value.expected == 0
    kept = write_output(cluster.node(1), attempt, "model.pt", content)
    assert kept.completed_at and b"".join(read_parts(kept)) == content


def test_caps_and_refusals_are_told_by_name(cluster, attempt, alice, settings):
    settings.TRAINYARD = {
        **settings.TRAINYARD,
        "output_file_mib": 1,
        "output_job_mib": 2,
        "output_count": 3,
    }
    mib = 1024 * 1024
    digest = "0" * 64
    entries = (
        OutputEntry("big", mib + 1, digest),
        OutputEntry("one", mib, digest),
        OutputEntry("two", mib, digest),
        OutputEntry("over", 1, digest),
        OutputEntry("../outside", 1, digest),
    )
    refused = (OutputRefusal("link", "it is a link"), OutputRefusal("bad\n", "no"))
    who = {"node": cluster.node(1), "fence": attempt.pk, "rank": 0}
    plan = take_output_list(**who, found=OutputList(entries, refused))
    assert [wish.name for wish in plan.wanted] == ["one", "two"]
    problems = {row.name: row.problem for row in outputs_of(alice, attempt.job).files}
    assert problems == {
        "big": "it is larger than 1 MiB, the most a file may have",
        "link": "it is a link",
        "one": "",
        "over": "the job's files would be more than 2 MiB",
        "two": "",
    }


def test_the_caps_hold_over_all_attempts_of_a_job(cluster, alice, project, settings):
    settings.TRAINYARD = {**settings.TRAINYARD, "output_count": 2, "output_job_mib": 1}
    job = submit(alice, project, retries=1)
    first = start(job, cluster.node(1))
    sync(cluster.node(1), running(first))
    write_output(cluster.node(1), first, "one", b"x" * 1024)
    sync(cluster.node(1), ended(first, reason=EndReason.EXIT_CODE, exit_code=1), now=at(9))
    job.refresh_from_db()
    second = start(job, cluster.node(2), now=at(20))
    who = {"node": cluster.node(2), "fence": second.pk, "rank": 0}
    entries = [
        OutputEntry(name, size, "0" * 64)
        for name, size in (("big", 1024 * 1024), ("two", 1), ("three", 1))
    ]
    plan = take_output_list(**who, found=OutputList(tuple(entries), ()))
    assert [wish.name for wish in plan.wanted] == ["two"]
    problems = {row.name: row.problem for row in outputs_of(alice, job).files}
    assert "more than 1 MiB" in problems["big"] and "more than 2 files" in problems["three"]
    # Listed again, the first one is in nobody's way.
    again = OutputList((OutputEntry("one", 1024 * 1024 - 1, "0" * 64), entries[1]), ())
    assert len(take_output_list(**who, found=again).wanted) == 2


def test_a_later_attempt_replaces_what_changed_and_keeps_the_rest(cluster, alice, project):
    job = submit(alice, project, retries=1)
    first = start(job, cluster.node(1))
    sync(cluster.node(1), running(first))
    old = write_output(cluster.node(1), first, "loss.csv", b"1,2")
    same = write_output(cluster.node(1), first, "config", b"seed=1")
    sync(cluster.node(1), ended(first, reason=EndReason.EXIT_CODE, exit_code=1), now=at(9))
    job.refresh_from_db()
    second = start(job, cluster.node(2), now=at(20))
    new = write_output(cluster.node(2), second, "loss.csv", b"1,2,3")
    assert write_output(cluster.node(2), second, "config", b"seed=1").pk == same.pk
    assert b"".join(read_parts(new)) == b"1,2,3"
    assert not OutputFile.objects.filter(pk=old.pk).exists()
    with pytest.raises(Conflict, match="later attempt"):
        write_output(cluster.node(1), first, "loss.csv", b"late")


def test_other_nodes_and_other_people_get_nothing(cluster, attempt, alice, carol, finance):
    row = write_output(cluster.node(1), attempt, "a", b"secret")
    with pytest.raises(NotFound):
        write_output(cluster.node(2), attempt, "a", b"foreign")
    for person in (carol, finance):
        with pytest.raises(Forbidden):
            outputs_of(person, attempt.job)
        with pytest.raises(Forbidden):
            get_output(person, attempt.job, row.pk)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/../b", "/etc/passwd", "a//b", "a\nb", "a\\b", "x" * 513, "a\udc80"]
)
def test_hostile_names_are_refused(name):
    assert problem_of_name(name)


def test_a_last_good_checkpoint_stays_and_one_that_was_passed_goes(cluster, alice, lead, project):
    """Two files of one job, as its attempts saved them: the furthest is not to be had again."""
    node, attempt = cluster.node(1), start(submit(alice, project), cluster.node(1))
    sync(node, running(attempt))
    write_output(node, attempt, "a", b"abc", now=NOON)
    write_output(node, attempt, "step-9", b"weights", now=NOON)
    sync(node, ended(attempt), now=NOON)
    over = attempt.job
    last, passed = over.outputs.get(name="step-9"), over.outputs.get(name="a")
    save = {"checkpoint_at": NOON, "checkpoint_bytes": 3}
    Attempt.objects.filter(pk=attempt.pk).update(
        **save, checkpoint_step=9, checkpoint_digest=last.digest
    )
    Attempt.objects.create(
        job=over, number=2, state="ended", assigned_at=NOON, ended_at=NOON, end_reason="completed",
        **save, checkpoint_step=3, checkpoint_digest=passed.digest,
    )  # fmt: skip
    later = NOON + timedelta(days=400)
    days = {"log_days": None, "file_days": 1}
    assert would_prune(actor=lead, project=project, **days, now=later) == Pruned(0, 1, 3)
    assert prune_kept(now=later, dry_run=True) == prune_kept(now=later) == Pruned(0, 1, 3)
    words = dict(over.outputs.values_list("name", "pruned_at"))
    assert words == {"a": later, "step-9": None}
    assert default_storage.exists(last.part_path(0))
