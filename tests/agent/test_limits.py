"""Memory and processor limits, by control group where the host has them and by watching."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.agent.runtime import limits
from scheduler.agent.spool import Spool
from scheduler.states import EndReason
from tests.agent.conftest import Agent, assignment, wait_until
from tests.agent.portal import Portal

GREEDY = """
import time
held = []
for step in range(40):
    held.append(bytearray(8 * 1024 * 1024))
    time.sleep(0.03)
time.sleep(20)
"""


@pytest.fixture(scope="module")
def watching(agents: Any) -> Agent:
    made: Agent = agents("watching", "--no-control-groups")
    return made


@pytest.fixture
def group() -> Iterator[limits.Limits]:
    made = limits.set_limits(f"trainyard-test-{os.getpid()}", memory_mib=64, cpus=1)
    yield made
    made.remove()


def test_too_much_memory_is_seen_by_watching(portal: Portal, watching: Agent) -> None:
    order = assignment(command=("/usr/bin/python3", "-c", GREEDY), memory_mib=96)
    report, _ = portal.outcome("watching", order)
    assert report.end_reason == EndReason.OUT_OF_MEMORY
    assert "the limit is 96 MiB" in report.detail


def test_the_whole_tree_counts(portal: Portal, watching: Agent) -> None:
    code = GREEDY.replace("range(40)", "range(10)")
    script = f"for i in 1 2 3; do /usr/bin/python3 -c '{code}' & done; wait"
    report, _ = portal.outcome("watching", assignment(script, memory_mib=160))
    assert report.end_reason == EndReason.OUT_OF_MEMORY


def test_within_the_limit_nothing_happens(portal: Portal, watching: Agent) -> None:
    code = "x = bytearray(32 * 1024 * 1024); import time; time.sleep(0.6)"
    order = assignment(command=("/usr/bin/python3", "-c", code), memory_mib=128)
    report, _ = portal.outcome("watching", order)
    assert report.end_reason == EndReason.COMPLETED


def test_too_much_memory_is_refused_by_the_kernel(
    portal: Portal, agent: Agent, group: limits.Limits
) -> None:
    if group.memory_group is None:
        pytest.skip("no memory control group can be made here")
    order = assignment(command=("/usr/bin/python3", "-c", GREEDY), memory_mib=96)
    report, _ = portal.outcome("alpha", order)
    assert report.end_reason == EndReason.OUT_OF_MEMORY
    assert "the kernel ended a process at the limit of 96 MiB" in report.detail


def _held(most_mib: int) -> dict[str, str]:
    """Files of a group of version 1 with a limit of 64 MiB that had so much at once."""
    most = most_mib * 1024 * 1024
    limit = 64 * 1024 * 1024
    return {"memory.max_usage_in_bytes": f"{most}\n", "memory.limit_in_bytes": f"{limit}\n"}


@pytest.mark.parametrize(
    ("files", "is_own"),
    [
        ({"memory.events": "low 0\nmax 9\noom 1\noom_kill 2\noom_group_kill 1\n"}, True),
        ({"memory.events": "low 0\nmax 9\noom 0\noom_kill 2\noom_group_kill 1\n"}, False),
        ({"memory.oom_control": "under_oom 0\noom_kill 1\n", "memory.failcnt": "3\n"}, True),
        ({"memory.oom_control": "under_oom 0\noom_kill 1\n", "memory.failcnt": "0\n"}, False),
        ({"memory.oom_control": "oom_kill 1\n", **_held(64)}, True),
        ({"memory.oom_control": "oom_kill 1\n", **_held(60)}, False),
        ({"memory.events": "low 0\nmax 9\noom 1\noom_kill 0\n"}, None),
        ({"memory.oom_control": "under_oom 0\noom_kill 0\n", "memory.failcnt": "3\n"}, None),
        ({}, None),
    ],
)
def test_a_node_out_of_memory_is_not_told_as_the_jobs_limit(
    tmp_path: Path, files: dict[str, str], is_own: bool | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    found = limits.Limits(64, memory_group=tmp_path)
    assert ("at the limit of 64 MiB" in found.breach(1)) == (is_own is True)
    assert ("the node ran out of memory" in found.host_kill()) == (is_own is False)


def test_who_forks_without_end_only_fails_itself(group: limits.Limits) -> None:
    if not group.has_most_processes:
        pytest.skip("no control group that limits processes can be made here")
    place = next(Path(one) for one in group.groups if Path(one, "pids.max").exists())
    assert int((place / "pids.max").read_text()) == limits.most_processes() >= 1024
    (place / "pids.max").write_text("20")  # a small host
    bomb = "i=0; while [ $i -lt 50 ]; do sleep 30 & i=$((i+1)); done; echo all"
    started = subprocess.Popen(
        ("sh", "-c", bomb), preexec_fn=group.join, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert started.stderr is not None
        problem = started.stderr.readline()
        assert b"fork" in problem.lower(), problem
        assert subprocess.run(["true"], check=False).returncode == 0, "others still fork"
    finally:
        for pid in (place / "cgroup.procs").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        started.wait()


_KERNELS = {
    2: {
        "memory.max": "67108864",
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "cpu.max": "300000 100000",
        "pids.max": "",
    },
    1: {
        "memory.limit_in_bytes": "67108864",
        "memory.memsw.limit_in_bytes": "67108864",
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "300000",
        "pids.max": "",
    },
}


@pytest.mark.parametrize("version", [2, 1])
def test_what_a_kernel_of_each_version_is_told(tmp_path: Path, version: int) -> None:
    """Few machines have both; a group is a folder of files that are there already."""
    for name in _KERNELS[version]:
        (tmp_path / name).touch()
    assert limits._limit_memory(tmp_path, version, 64)
    assert limits._limit_processes(tmp_path)
    limits._limit_cpus(tmp_path, version, 3)
    wanted = _KERNELS[version] | {"pids.max": str(limits.most_processes())}
    assert {name: (tmp_path / name).read_text() for name in wanted} == wanted


def test_all_members_are_killed_at_once_where_the_kernel_offers_it(tmp_path: Path) -> None:
    (tmp_path / "cgroup.kill").touch()
    limits.Limits(64, kill_group=tmp_path).kill()
    assert (tmp_path / "cgroup.kill").read_text() == "1"
    (tmp_path / "cgroup.kill").write_text("")
    limits.kill_groups((str(tmp_path), str(tmp_path / "gone")))
    assert (tmp_path / "cgroup.kill").read_text() == "1"


def test_a_processor_more_than_was_asked_for_is_refused_by_the_kernel(
    group: limits.Limits,
) -> None:
    found = [path for path in group.groups for _ in path.glob("cpu.cfs_quota_us")]
    found += [path for path in group.groups for _ in path.glob("cpu.max")]
    if not found:
        pytest.skip("no control group that limits processors can be made here")
    (place,) = found
    told = {path.name: path.read_text().split() for path in place.glob("cpu.*")}
    quota = told.get("cpu.max") or [*told["cpu.cfs_quota_us"], *told["cpu.cfs_period_us"]]
    assert quota == ["100000", "100000"], "one of them"


def test_where_the_kernel_lets_no_group_be_made_memory_is_watched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A group cannot be made in /proc; nor is it an error."""
    tree = limits.Tree(2, frozenset({"memory", "cpu", "pids"}), Path("/proc/trainyard"))
    monkeypatch.setattr(limits, "host_trees", lambda: (tree,))
    made = limits.set_limits("trainyard-test", memory_mib=1, cpus=1)
    assert (made.groups, made.memory_group, made.has_most_processes) == ([], None, False)
    made.join()
    made.kill()
    made.remove()
    hungry = subprocess.Popen(
        (sys.executable, "-c", "held = bytes(32 << 20); print(len(held), flush=True); input()"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert hungry.stdout is not None and hungry.stdout.readline()
        assert "the limit is 1 MiB" in made.breach(os.getpid())
    finally:
        hungry.communicate()


def test_groups_are_given_back(portal: Portal, agent: Agent, group: limits.Limits) -> None:
    if not group.groups:
        pytest.skip("no control group can be made here")
    order = assignment("sleep 0.1")
    portal.outcome("alpha", order)
    slots = Spool(agent.state / "spool").slots()
    slot = next(slot for slot in slots if slot.entry.assignment.fence == order.fence)
    supervisor = slot.supervisor()
    assert supervisor is not None and supervisor.cgroups
    wait_until(lambda: not any(os.path.exists(path) for path in supervisor.cgroups))


def test_trees_are_found_in_version_2_and_version_1_lines(tmp_path: Any) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"
        "cgroup /old/memory cgroup rw,memory 0 0\n"
        "cgroup /old/cpu cgroup rw,cpu,cpuacct 0 0\n"
        "cgroup /old/pids cgroup rw,pids 0 0\n"
    )
    own = tmp_path / "cgroup"
    own.write_text("3:cpu,cpuacct:/\n2:memory:/box/1\n1:pids:/\n0::/user.slice\n")
    found = {(tree.version, str(tree.own)) for tree in limits.trees(mounts, own)}
    assert found == {
        (2, "/sys/fs/cgroup/trainyard"),
        (1, "/old/memory/box/1"),
        (1, "/old/cpu"),
        (1, "/old/pids"),
    }


def test_threads_and_core_dumps_are_limited(portal: Portal, agent: Agent) -> None:
    order = assignment("echo $OMP_NUM_THREADS; ulimit -c; ulimit -v; ulimit -l", cpus=3)
    _, log = portal.outcome("alpha", order)
    pinned = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    shown = "unlimited" if pinned == resource.RLIM_INFINITY else str(pinned // 1024)
    assert log.split() == ["3", "0", "unlimited", shown]
