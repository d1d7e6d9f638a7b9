"""What a job starts with, and clear words for what it cannot start with."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.agent.runtime import kernel
from scheduler.agent.setup import folders
from scheduler.states import EndReason, FailureClass
from scheduler.triage import Failure, judge
from tests.agent.conftest import Agent, assignment
from tests.agent.portal import Portal


def failure(portal: Portal, **changes: object) -> str:
    report, _ = portal.outcome("alpha", assignment(**changes))
    assert report.end_reason == EndReason.SETUP_FAILED
    assert report.started_at is None
    return report.detail


def test_an_unknown_command_is_named(portal: Portal, agent: Agent) -> None:
    assert "command not found: no-such-tool" in failure(portal, command=("no-such-tool", "-x"))


def test_a_file_that_is_not_executable_is_named(portal: Portal, agent: Agent, folder: Path) -> None:
    (folder / "plain.py").write_text("print(1)")
    detail = failure(portal, command=(f"{folder}/plain.py",))
    assert f"{folder}/plain.py may not be executed" in detail


def test_a_missing_interpreter_is_named(portal: Portal, agent: Agent) -> None:
    assert "names an interpreter" in failure(portal, script="#!/no/such/python\nprint(1)\n")


def test_a_working_folder_that_is_not_there_is_named(portal: Portal, agent: Agent) -> None:
    detail = failure(portal, command=("/bin/true",), working_dir="/no/such/folder")
    assert detail.startswith("working_dir: cannot enter /no/such/folder")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change a job's user")
def test_a_working_folder_closed_to_the_job_is_named(
    portal: Portal, agent: Agent, folder: Path
) -> None:
    closed = folder / "mine" / "inner"
    closed.mkdir(parents=True)
    closed.parent.chmod(0o700)
    detail = failure(portal, command=("/bin/true",), working_dir=str(closed))
    assert detail.startswith("working_dir: cannot enter")
    assert f"Folder {closed.parent} is closed" in detail


@pytest.mark.skipif(os.geteuid() != 0, reason="root may write everywhere")
def test_a_checkpoint_folder_that_cannot_be_written_is_named(portal: Portal, agent: Agent) -> None:
    detail = failure(portal, command=("/bin/true",), checkpoint_dir="/etc/trainyard-checkpoints")
    assert detail.startswith("checkpoint_dir: the job's user cannot write")
    assert not Path("/etc/trainyard-checkpoints").exists()


def test_a_checkpoint_folder_that_hangs_is_told_as_failing_storage(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(folders, "_LOOK", "sleep 60")
    monkeypatch.setattr(folders, "_LOOK_S", 0.2)
    with pytest.raises(OSError, match=f"checkpoint_dir: the file system of {tmp_path}") as told:
        folders.make_as_user(str(tmp_path), None)
    finding = judge(Failure(EndReason.START_FAILED, None, str(told.value)))
    assert (finding.failure, finding.is_confirmed) == (FailureClass.INFRA_STORAGE, True)


def test_neither_command_nor_script_is_refused(portal: Portal, agent: Agent) -> None:
    assert failure(portal).startswith("command: there is neither")


def test_the_program_starts_in_a_fresh_private_folder(portal: Portal, agent: Agent) -> None:
    script = "pwd; ls -a | wc -l; stat -c %a .; touch here $TMPDIR/there && echo ok"
    order = assignment(script)
    _, log = portal.outcome("alpha", order)
    place, entries, mode, word = log.split()
    assert place == str(agent.state / "attempts" / f"{order.fence}-0" / "work")
    assert (entries, mode, word) == ("2", "700", "ok")


def test_a_script_runs_by_its_first_line(portal: Portal, agent: Agent) -> None:
    script = "#!/usr/bin/python3\nimport sys\nprint('python', sys.version_info[0])\n"
    _, log = portal.outcome("alpha", assignment(script))
    assert log == "python 3\n"


def test_standard_input_is_empty(portal: Portal, agent: Agent) -> None:
    _, log = portal.outcome("alpha", assignment("cat; echo end"))
    assert log == "end\n"


def test_a_chosen_checkpoint_folder_is_made(portal: Portal, agent: Agent, folder: Path) -> None:
    shared = folder / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    order = assignment(
        "touch $TRAINYARD_CHECKPOINT_DIR/x && echo ok", checkpoint_dir=f"{shared}/run/one"
    )
    _, log = portal.outcome("alpha", order)
    assert log == "ok\n" and (shared / "run" / "one" / "x").exists()


@pytest.mark.parametrize(("rank", "is_shared"), [(0, False), (1, False), (1, True)])
def test_of_a_gang_without_an_offer_the_first_rank_alone_reads_its_nodes_folder(
    portal: Portal, agent: Agent, folder: Path, rank: int, is_shared: bool
) -> None:
    script = """
    echo "from [$TRAINYARD_RESUME_FROM]"; cd "$TRAINYARD_CHECKPOINT_DIR"; echo weights > saved
    echo '{"path": "saved", "step": 1}' > new && mv new checkpoint.json
    """
    shared = folder / f"gang-{rank}"
    shared.mkdir(exist_ok=True)
    shared.chmod(0o1777)
    first = assignment(script, checkpoint_dir=str(shared) if is_shared else "")
    portal.outcome("alpha", first)
    second = replace(first, fence=assignment().fence, rank=rank, attempt_number=2)
    second = replace(second, addresses=("127.0.0.1",) * 2, master_port=29511)
    portal.assign("alpha", second)
    portal.ended("alpha", second.fence)
    reads = rank == 0 or is_shared
    assert (b"saved]" in portal.logs[second.fence, rank]) == reads


def test_the_next_attempt_resumes_from_the_last_whole_checkpoint(
    portal: Portal, agent: Agent
) -> None:
    script = """
    cd "$TRAINYARD_CHECKPOINT_DIR"; echo "from [$TRAINYARD_RESUME_FROM]"
    echo weights > epoch-$TRAINYARD_ATTEMPT
    echo '{"path": "epoch-'$TRAINYARD_ATTEMPT'", "step": 1}' > new && mv new checkpoint.json
    """
    first = assignment(script)
    report, log = portal.outcome("alpha", first)
    assert log == "from []\n" and report.resumed_from == ""
    second = assignment(script, job_id=first.job_id, attempt_number=2)
    report, log = portal.outcome("alpha", second)
    kept = agent.state / "checkpoints" / str(first.job_id) / "epoch-1"
    assert log == f"from [{kept}]\n" and report.resumed_from == str(kept)


def test_folders_of_jobs_are_made_apart(folder: Path) -> None:
    """Where the file system knows the hint; on any other the folder is as it was."""
    jobs, kept = folder / "work" / "jobs", folder / "work" / "kept"
    folders.make_passable(jobs, soon_deleted=True)
    folders.make_passable(kept)
    assert all(one.stat().st_mode & 0o777 == 0o711 for one in (jobs, kept))
    with open(os.devnull) as other:
        kernel.spread_folders(Path(other.name))
    kernel.spread_folders(folder / "missing")
    kind = subprocess.run(["stat", "-f", "-c", "%T", jobs], capture_output=True, text=True)
    if kind.stdout.strip() == "ext2/ext3":
        assert [_lies_apart(one) for one in (jobs.parent, jobs, kept)] == [True, True, False]


def _lies_apart(folder: Path) -> bool:
    held = os.open(folder, os.O_RDONLY)
    told = struct.unpack("i", fcntl.ioctl(held, kernel._GET_FLAGS, bytes(4)))[0]
    os.close(held)
    return bool(told & kernel._TOP_OF_TREES)
