"""What an attempt leaves in its scratch folder is gone at its end, the rest after a while."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler.agent.client import ServerAway
from scheduler.agent.kept.sweeping import Live, Sweeper
from scheduler.agent.runtime.space.scratch import remove_scratch
from scheduler.agent.runtime.space.trees import remove_tree
from tests.agent.conftest import wait_until

DAY_S = 86_400.0


def _left(place: Path, *, days: float = 0.0) -> Path:
    """A file there that was written so long ago, as its folders were."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("x")
    then = time.time() - days * DAY_S
    for one in (place, *list(place.parents)[:2]):
        os.utime(one, (then, then))
    return place


def _in_time() -> float:
    return -2.0


def _away() -> float:
    raise ServerAway("it does not answer")


def _swept(
    work: Path,
    live: Live = Live((), ()),
    clock_ahead_s: Callable[[], float | None] = _in_time,
) -> None:
    sweeper = Sweeper(work, DAY_S, 14 * DAY_S, threading.RLock(), clock_ahead_s)
    sweeper.sweep(lambda: live)
    assert sweeper.thread is None, "not as soon as the agent starts"
    sweeper.due_at = 0.0
    sweeper.sweep(lambda: live)
    assert sweeper.thread is not None
    sweeper.thread.join(10)


def test_what_was_left_in_scratch_is_deleted(tmp_path: Path) -> None:
    kept, scratch = tmp_path / "kept", tmp_path / "scratch"
    for folder in (kept, scratch / "deep"):
        folder.mkdir(parents=True)
        (folder / "file").write_text("x")
    (scratch / "link").symlink_to(kept)
    remove_scratch(scratch)
    assert not scratch.exists() and (kept / "file").exists()
    remove_scratch(scratch)


def _nest(folder: Path, depth: int) -> None:
    """Folders in one another with a file in each: deeper than a path may be long."""
    folder.mkdir(parents=True)
    held = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.close(os.open("file", os.O_CREAT, dir_fd=held))
        os.mkdir("deeper", dir_fd=held)
        above, held = held, os.open("deeper", os.O_RDONLY, dir_fd=held)
        os.close(above)
    os.close(held)


def test_folders_deeper_than_paths_are_long_are_deleted(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    # pytest itself could not.
    request.addfinalizer(lambda: subprocess.run(["rm", "-rf", str(tmp_path)], check=True))
    _nest(tmp_path / "attempts" / "1-0" / "scratch", 2500)
    remove_scratch(tmp_path / "attempts" / "1-0" / "scratch")
    assert list(tmp_path.glob("attempts/.*")) == [] == list(tmp_path.glob("attempts/1-0/*"))
    _nest(tmp_path / "checkpoints" / "1", 2500)
    os.utime(tmp_path / "checkpoints" / "1", (0, 0))
    _swept(tmp_path, Live((), ("1",)))
    assert (tmp_path / "checkpoints" / "1").exists()
    remove_tree(tmp_path / "checkpoints")
    assert not (tmp_path / "checkpoints").exists()


def test_files_of_the_future_are_as_old_as_their_last_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to_come = time.time() + 9_000 * DAY_S
    for kind in ("outputs", "attempts"):
        place = _left(tmp_path / kind / "1" / "file")
        for one in (place, place.parent):
            os.utime(one, (to_come, to_come))
    later = time.time() + 20 * DAY_S
    monkeypatch.setattr(time, "time", lambda: later)
    _swept(tmp_path)
    assert list(tmp_path.glob("*/*")) == []


def test_an_empty_one_goes_with_the_other_folders(tmp_path: Path) -> None:
    _left(tmp_path / "attempts" / "1-0" / "work" / "file")
    scratch = tmp_path / "attempts" / "1-0" / "scratch"
    scratch.mkdir(parents=True)
    remove_scratch(scratch)
    assert scratch.is_dir()
    os.utime(scratch.parent, (0, 0))
    _swept(tmp_path)
    assert not scratch.parent.exists()


def test_a_link_instead_of_scratch_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "somebodys"
    target.mkdir()
    scratch = tmp_path / "scratch"
    scratch.symlink_to(target)
    remove_scratch(scratch)
    (target / "file").write_text("x")
    remove_scratch(scratch)
    assert (target / "file").exists()


def test_what_a_job_keeps_goes_once_nobody_has_written_to_it_for_long(tmp_path: Path) -> None:
    """Outputs are at the portal by then; a checkpoint may be all that is left of a job's work."""
    gone = [
        _left(tmp_path / "attempts" / "1-0" / "old", days=2),
        _left(tmp_path / "outputs" / "1" / "old", days=2),
        _left(tmp_path / "checkpoints" / "1" / "old", days=15),
    ]
    stays = [
        _left(tmp_path / "outputs" / "2" / "new", days=0.5),
        _left(tmp_path / "checkpoints" / "2" / "new", days=13),
        _left(tmp_path / "outputs" / "7" / "old", days=20),
        _left(tmp_path / "checkpoints" / "7" / "old", days=20),
        _left(tmp_path / "attempts" / "9-1" / "old", days=20),
    ]
    # A file that was written in its place leaves its folders as they were.
    stays.append(_left(tmp_path / "checkpoints" / "3" / "deep" / "new", days=15))
    os.utime(stays[-1])
    _swept(tmp_path, Live(("9-1",), ("7",)))
    assert [path.exists() for path in gone] == [False] * 3
    assert [path.exists() for path in stays] == [True] * len(stays)
    assert not [path for path in tmp_path.glob("*/*") if path.name.startswith(".")]


def test_what_an_earlier_sweep_did_not_end_is_deleted(tmp_path: Path) -> None:
    half = _left(tmp_path / "checkpoints" / ".gone-5" / "file")
    _swept(tmp_path)
    assert not half.parent.exists()


def test_a_job_that_begins_meanwhile_keeps_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is known under the lock before it looks for its folders."""
    old = _left(tmp_path / "checkpoints" / "1" / "old", days=15)
    lock, live = threading.RLock(), [Live((), ())]
    sweeper = Sweeper(tmp_path, DAY_S, 14 * DAY_S, lock, _in_time)
    sweeper.due_at = 0.0
    with lock:
        sweeper.sweep(lambda: live[0])
        time.sleep(0.2)
        live[0] = Live((), ("1",))
    thread = sweeper.thread
    wait_until(lambda: thread is not None and not thread.is_alive())
    assert old.exists()


@pytest.mark.parametrize(
    ("clock_ahead_s", "is_kept"),
    [(lambda: 30 * DAY_S, True), (lambda: -DAY_S, True), (_away, True), (lambda: None, False)],
)
def test_by_a_clock_that_is_off_nothing_is_old(
    tmp_path: Path, clock_ahead_s: Callable[[], float | None], is_kept: bool
) -> None:
    step = _left(tmp_path / "checkpoints" / "1" / "step", days=30)
    _swept(tmp_path, clock_ahead_s=clock_ahead_s)
    assert step.exists() == is_kept
