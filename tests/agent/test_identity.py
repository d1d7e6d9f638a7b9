"""A job's own user: unprivileged, alone, without an account; and what it may reach."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from scheduler.agent.runtime.space import mounts
from scheduler.agent.setup.identities import NoFreeUid, UidBook, give_folder
from scheduler.states import EndReason
from scheduler.wire.messages import Assignment
from tests.agent.conftest import Agent, assignment, wait_until
from tests.agent.portal import Portal

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change a job's user")


@needs_root
def test_a_job_is_an_unprivileged_user_without_groups_or_a_way_back(
    portal: Portal, agent: Agent
) -> None:
    order = assignment('id -u; id -G; grep -E "NoNewPrivs|CapEff" /proc/self/status; umask')
    _, log = portal.outcome("alpha", order)
    uid, groups, capabilities, no_new_privileges, mask = log.splitlines()
    assert 61_000 <= int(uid) <= 64_999
    assert groups == uid
    assert capabilities.split() == ["CapEff:", "0000000000000000"]
    assert no_new_privileges.split() == ["NoNewPrivs:", "1"]
    assert mask == "0022"


@needs_root
def test_two_attempts_at_once_are_two_users_who_cannot_see_each_others_files(
    portal: Portal, agent: Agent
) -> None:
    first = assignment("id -u; echo secret > mine; sleep 1.5")
    portal.assign("alpha", first)
    portal.wait(lambda: portal.logs[first.fence, 0], what="the first user")
    work = agent.state / "attempts" / f"{first.fence}-0"
    spool = agent.state / "spool"
    script = f"id -u; cat {work}/work/mine; ls {work}; ls {spool}; cat {agent.state}/node.json"
    _, log = portal.outcome("alpha", assignment(script))
    assert "secret" not in log and "node_token" not in log
    assert log.count("Permission denied") == 4
    portal.ended("alpha", first.fence)
    assert portal.logs[first.fence, 0].decode().split() != log.split()[:1]


@needs_root
def test_the_same_job_keeps_its_files_over_attempts(portal: Portal, agent: Agent) -> None:
    script = 'cd "$TRAINYARD_CHECKPOINT_DIR"; echo $TRAINYARD_ATTEMPT >> seen; cat seen'
    first = assignment(script)
    portal.outcome("alpha", first)
    kept = agent.state / "checkpoints" / str(first.job_id)
    give_folder(
        str(kept), 63_999, range(61_000, 65_000)
    )  # as if another user id had been picked the first time
    second = assignment(script, job_id=first.job_id, attempt_number=2)
    _, log = portal.outcome("alpha", second)
    assert log.split() == ["1", "2"]


@needs_root
def test_only_what_jobs_and_the_agent_made_is_given(folder: Path) -> None:
    """A hard link is enough to lay somebody's file into a folder, where the host allows that."""
    foreign, place = folder / "foreign", folder / "given"
    (place / "inner").mkdir(parents=True)
    for owner in (0, 1, 61_005):
        for name in (f"{owner}", f"inner/{owner}"):
            (place / name).write_text("x")
            os.chown(place / name, owner, owner)
    for owner in (0, 61_005):
        (folder / f"outer-{owner}").write_text("x")
        os.chown(folder / f"outer-{owner}", owner, owner)
        os.link(folder / f"outer-{owner}", place / f"linked-{owner}")
    foreign.write_text("x")
    (place / "link").symlink_to(foreign)
    give_folder(str(place), 61_007, range(61_000, 61_010))
    found = {str(one.relative_to(place)): one.lstat().st_uid for one in place.rglob("*")}
    stay = {"1": 1, "inner/1": 1, "linked-0": 0}
    assert found == {name: stay.get(name, 61_007) for name in found} and len(found) == 10
    assert (foreign.stat().st_uid, place.stat().st_uid) == (0, 61_007)


def _owners(agent: Agent, order: Assignment) -> list[tuple[int, int]]:
    """Whose the tops of its folders are, and how open."""
    tops = [agent.state / "attempts" / f"{order.fence}-0"]
    tops += [agent.state / kind / str(order.job_id) for kind in ("checkpoints", "outputs")]
    return [(top.stat().st_uid, stat.S_IMODE(top.stat().st_mode)) for top in tops]


@needs_root
def test_what_a_job_left_is_closed_to_who_gets_its_user_id_later(
    portal: Portal, agent: Agent
) -> None:
    script = """cd "$TRAINYARD_CHECKPOINT_DIR"; echo $TRAINYARD_ATTEMPT >> seen; cat seen; id -u
    chmod 777 . "$TRAINYARD_OUTPUT_DIR"; echo kept > "$TRAINYARD_OUTPUT_DIR/out"
    """
    first = assignment(script)
    _, log = portal.outcome("alpha", first)
    assert log.split()[0] == "1" and {uid for uid, _ in _owners(agent, first)} == {
        int(log.split()[1])
    }
    portal.wait(lambda: first.fence in portal.outputs_done, what="its outputs")
    portal.forget("alpha", first.fence)
    wait_until(lambda: _owners(agent, first) == [(0, 0o700)] * 3)
    # Its own next attempt gets them, whichever id that has.
    second = assignment(script, job_id=first.job_id, attempt_number=2)
    _, log = portal.outcome("alpha", second)
    assert log.split()[:2] == ["1", "2"]


@needs_root
def test_what_the_next_attempt_has_is_not_taken_from_it(portal: Portal, agent: Agent) -> None:
    first = assignment('id -u; echo 1 > "$TRAINYARD_CHECKPOINT_DIR/seen"')
    _, uid = portal.outcome("alpha", first)
    script = """id -u; cd "$TRAINYARD_CHECKPOINT_DIR"; while [ ! -e go ]; do sleep 0.05; done
    echo 2 >> seen; cat seen"""
    second = assignment(script, job_id=first.job_id, attempt_number=2)
    portal.assign("alpha", second)
    portal.wait(lambda: portal.logs[second.fence, 0], what="the second one")
    portal.forget("alpha", first.fence)
    wait_until(lambda: _owners(agent, first)[0] == (0, 0o700))
    (agent.state / "checkpoints" / str(first.job_id) / "go").touch()
    report = portal.ended("alpha", second.fence)
    assert report.exit_code == 0
    assert portal.logs[second.fence, 0].decode().split() == [uid.strip(), "1", "2"]


@needs_root
def test_what_an_earlier_agent_left_open_is_closed_by_the_next(
    portal: Portal, agents: Any, folder: Path
) -> None:
    left = [folder / "late" / kind for kind in ("attempts/7-0", "checkpoints/7", "outputs/7")]
    agent: Agent = agents("late", start=False)
    for place in left:
        place.mkdir(parents=True)
        os.chown(place, 61_000, 61_000)
    other = folder / "late" / "outputs" / "8"
    other.symlink_to(folder)
    agent.start()
    portal.wait(lambda: portal.nodes["late"].syncs, what="a sync")
    assert {place.stat().st_uid for place in left} == {0} and other.is_symlink()


def test_no_folder_above_the_agents_own_changes(portal: Portal, agent: Agent) -> None:
    before = [folder.stat().st_mode for folder in agent.state.parents]
    portal.outcome("alpha", assignment("true"))
    assert [folder.stat().st_mode for folder in agent.state.parents] == before
    assert stat.S_IMODE((agent.state / "node.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((agent.state / "spool").stat().st_mode) == 0o700
    assert stat.S_IMODE((agent.state / "attempts").stat().st_mode) == 0o711


@needs_root
def test_an_interpreter_behind_a_closed_folder_is_named(
    portal: Portal, agents: Any, folder: Path
) -> None:
    closed = folder / "closed"
    tool = closed / "bin" / "tool"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\necho reached\n")
    tool.chmod(0o755)
    closed.chmod(0o700)
    agents("hidden", "--path-prefix", str(tool.parent))
    report, _ = portal.outcome("hidden", assignment(command=(str(tool),)))
    assert report.end_reason == EndReason.SETUP_FAILED
    assert f"Folder {closed} is closed to other users" in report.detail

    agents("shown", "--path-prefix", str(tool.parent), "--expose", str(tool.parent))
    order = assignment(f"tool; ls {closed}; echo x > {tool.parent}/new; echo done")
    report, log = portal.outcome("shown", order)
    if not _may_mount():
        pytest.skip("this host forbids mount namespaces")
    assert "reached" in log and "Permission denied" in log and "done" in log
    assert not (tool.parent / "new").exists()
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


def _may_mount() -> bool:
    pid = os.fork()
    if pid == 0:
        try:
            from scheduler.agent.runtime import kernel

            kernel.leave_mount_namespace()
            os._exit(0)
        except OSError:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


@needs_root
def test_who_asks_for_the_name_of_a_jobs_user_gets_one(portal: Portal, agent: Agent) -> None:
    code = "import getpass; print(getpass.getuser())"
    _, log = portal.outcome("alpha", assignment(command=("/usr/bin/python3", "-c", code)))
    assert log.strip() == "trainyard"


@needs_root
def test_the_agents_own_python_can_be_lent_to_jobs(portal: Portal, agents: Any) -> None:
    agents("lender", "--own-python")
    code = "import sys, numpy; print(sys.prefix, numpy.arange(3).sum())"
    report, log = portal.outcome("lender", assignment(command=("python", "-c", code)))
    if not _may_mount() and report.end_reason == EndReason.SETUP_FAILED:
        pytest.skip("this host forbids mount namespaces")
    assert log.strip() == f"{sys.prefix} 3"


def test_closed_parents_are_found(tmp_path: Path) -> None:
    inner = tmp_path / "open" / "inner"
    inner.mkdir(parents=True)
    for folder in (inner, inner.parent, *tmp_path.parents[:-1], tmp_path):
        if not folder.stat().st_mode & 1:
            assert mounts.closed_parent(str(inner)) is not None
            return
    assert mounts.closed_parent(str(inner)) is None


def test_ids_are_taken_once_and_given_back() -> None:
    book = UidBook(63_998, 63_999)
    first, second = book.pick(1, "a"), book.pick(2, "a")
    assert {first, second} == {63_998, 63_999}
    with pytest.raises(NoFreeUid, match="--job-uids"):
        book.pick(3, "a")
    assert book.rest(1) == first
    with pytest.raises(NoFreeUid):
        book.pick(3, "b")
    book.note_cleared(first)
    with pytest.raises(NoFreeUid):
        book.pick(3, "b")
    assert book.pick(3, "a") == first, "what is at rest is its job's own"
    book.give_back(1)
    with pytest.raises(NoFreeUid):
        book.pick(4, "anything")
    assert book.give_back(3) == first
    book.note_cleared(first)
    assert book.pick(4, "anything") == first


def test_an_id_with_an_account_is_never_taken() -> None:
    import pwd

    account = max(pwd.getpwall(), key=lambda entry: entry.pw_uid % 60_000).pw_uid
    with pytest.raises(NoFreeUid):
        UidBook(account, account).pick(1, "a")


def test_how_long_it_is_kept_counts_from_the_last_attempt(portal: Portal, agent: Agent) -> None:
    order = assignment("true")
    portal.outcome("alpha", order)
    kept = agent.state / "checkpoints" / str(order.job_id)
    os.utime(kept, (1.0, 1.0))
    portal.forget("alpha", order.fence)
    wait_until(lambda: kept.stat().st_mtime > 1.0)
