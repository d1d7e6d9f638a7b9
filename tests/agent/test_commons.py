"""What jobs leave where everybody may write goes with them, and nothing of anybody else's."""

from __future__ import annotations

import ctypes
import os
import shutil
import threading
from collections.abc import Collection, Container, Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.agent.node.leaving import Leaving
from scheduler.agent.runner import Attempt
from scheduler.agent.runtime import kernel, processes
from scheduler.agent.runtime.space import commons
from scheduler.agent.setup.identities import NoFreeUid, UidBook
from scheduler.states import AttemptState
from tests.agent.conftest import assignment, wait_until
from tests.agent.portal import Portal

MINE, OTHER = 63_990, 63_991
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of everybody."""
    monkeypatch.setattr(commons, "FOLDERS", (str(tmp_path), str(tmp_path / "gone")))
    return tmp_path


def _lay(path: Path, uid: int, text: str | None = "x") -> Path:
    if text is None:
        path.mkdir()
    else:
        path.write_text(text)
    os.chown(path, uid, uid)
    return path


def _clear(spared: Collection[str] = (), *, in_folders: bool = True) -> None:
    commons.clear(MINE, commons.left({MINE, OTHER}, in_folders=in_folders), spared)


def test_only_what_is_the_ids_own_goes(place: Path) -> None:
    kept = [
        _lay(place / "other", OTHER),
        _lay(place / "shared", MINE, None),
        _lay(place / "shared" / "other", OTHER, None),
        # In a folder of somebody else's nobody looks.
        _lay(place / "shared" / "other" / "mine", MINE),
        _lay(place / "checkpoints", MINE, None),
        _lay(place / "checkpoints" / "mine", MINE),
    ]
    target = _lay(place / "shared" / "other" / "target", OTHER)
    gone = [_lay(place / "file", MINE), _lay(place / "shared" / "file", MINE)]
    deep = place / "deep"
    for _ in range(100):
        deep = _lay(deep, MINE, None) / "deep"
    (place / "link").symlink_to(target.parent)
    os.chown(place / "link", MINE, MINE, follow_symlinks=False)
    _clear(commons.tops_of(str(place / "checkpoints" / "run")))
    assert [path for path in kept if not path.exists()] == [] and target.exists()
    assert not [path for path in (*gone, place / "link", place / "deep") if os.path.lexists(path)]
    assert sorted(path.name for path in place.iterdir()) == ["checkpoints", "other", "shared"]


def test_nothing_goes_while_a_process_is_the_ids(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = _lay(place / "file", MINE)
    monkeypatch.setattr(processes, "owned_by", lambda uid: [1])
    _clear()
    assert left.exists()
    _clear(in_folders=False)
    assert left.exists(), "a sandbox shows none of these folders"


def test_who_cannot_end_gives_up(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = _lay(place / "file", MINE)
    monkeypatch.setattr(commons, "_GIVE_UP_S", -1.0)
    _clear()
    assert left.exists()


def test_one_look_is_enough_for_all_that_ended(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = _lay(place / "first", MINE), _lay(place / "second", OTHER)
    tries, looks = list[int](), list[object]()
    left, clear, may_look = commons.left, commons.clear, threading.Event()

    def look(uids: Container[int], *, in_folders: bool) -> list[commons.Left]:
        looks.append(uids)
        assert may_look.wait(5)
        return left(uids, in_folders=in_folders)

    def stumble(uid: int, *words: Any) -> None:
        tries.append(uid)
        if uid == MINE:
            raise RuntimeError(uid)
        clear(uid, *words)

    monkeypatch.setattr(commons, "left", look)
    monkeypatch.setattr(commons, "clear", stumble)
    book = UidBook(MINE - 1, OTHER)
    leaving = Leaving(place, book, "agent")
    for uid in (MINE - 1, MINE, OTHER):
        ended = Attempt.__new__(Attempt)
        ended.assignment = assignment("true")
        book.note(ended.fence, uid, str(uid))
        leaving.rest(ended)
        wait_until(lambda: len(looks) == 1)
    may_look.set()
    wait_until(lambda: not book._clearing)
    assert (len(looks), sorted(tries)) == (2, [MINE - 1, MINE, OTHER])
    assert first.exists() and not second.exists(), "one that fails keeps nobody from the others"


@pytest.fixture
def segment() -> Iterator[Any]:
    """Makes System V memory that is a user's; says its number."""
    libc, made = ctypes.CDLL(None, use_errno=True), list[int]()

    def make(uid: int) -> int:
        pid = os.fork()
        if pid == 0:
            os.setuid(uid)
            os._exit(libc.shmget(0x7A0000 + uid, 4096, 0o1600) < 0)
        assert os.waitpid(pid, 0)[1] == 0
        made.append(libc.shmget(0x7A0000 + uid, 0, 0))
        return made[-1]

    yield make
    for number in made:
        libc.shmctl(number, 0, None)


def test_system_v_memory_goes(place: Path, segment: Any) -> None:
    first, second = segment(MINE), segment(OTHER)
    _clear(in_folders=False)
    found = {one.number for one in commons.left({MINE, OTHER}, in_folders=False)}
    assert second in found and first not in found
    with pytest.raises(OSError, match="msg 123456789"):
        kernel.remove_system_v("msg", 123456789)


def test_an_id_that_left_something_is_for_nobody_else(place: Path) -> None:
    _lay(place / "file", MINE)
    with pytest.raises(NoFreeUid, match=str(place)):
        UidBook(MINE, MINE).pick(1, "a")
    assert UidBook(MINE, MINE, in_folders=False).pick(1, "a") == MINE
    assert UidBook(MINE, MINE).pick(1, "a", str(place / "file" / "run")) == MINE
    adopted = UidBook(MINE, MINE)
    adopted.note(1, MINE, "a")
    assert adopted.rest(1) == MINE
    adopted.note_cleared(MINE)
    assert adopted.pick(2, "a") == MINE, "its own job's next attempt meets what it left"


def test_an_id_is_for_nobody_while_it_is_cleared(place: Path) -> None:
    book = UidBook(MINE, OTHER)
    uid = book.pick(1, "a")
    assert book.rest(1) == uid
    assert book.give_back(1) is None, "it is being cleared already"
    assert book.pick(2, "b") != uid
    picked = list[int]()
    waits = threading.Thread(target=lambda: picked.append(book.pick(3, "a")))
    waits.start()
    waits.join(0.2)
    assert picked == []
    book.note_cleared(uid)
    waits.join(5)
    assert picked == [uid], "its own job's next attempt waits for it"
    assert book.rest(9) is None and book.give_back(9) is None


def test_what_another_attempt_of_the_job_has_stays() -> None:
    book = UidBook(MINE, MINE)
    for fence in (1, 2):
        book.note(fence, MINE, "a")
    assert book.rest(1) is None and book.give_back(1) is None
    assert book.rest(2) == MINE


def test_what_a_job_left_goes_at_its_end(portal: Portal, agents: Any) -> None:
    agents("tidy")
    names = [f"{folder}/trainyard-test-{os.getpid()}" for folder in commons.FOLDERS[:3]]
    named = Path(f"{names[0]}-named")
    script = "".join(f"mkdir -m 777 {name} && touch {name}/left\n" for name in names)
    order = assignment(f"{script}touch {named}/kept", checkpoint_dir=str(named / "deeper"))
    try:
        report, log = portal.outcome("tidy", order)
        assert report.state is AttemptState.ENDED and report.exit_code == 0, (report, log)
        wait_until(lambda: not any(map(os.path.exists, names)))
        assert (named / "kept").exists()
        # With an id of its own again, though its folder lies where nobody else's may.
        portal.forget("tidy", order.fence)
        named_dir = str(named / "deeper")
        again = assignment(f"touch {named_dir}/on", checkpoint_dir=named_dir, job_id=order.job_id)
        assert portal.outcome("tidy", again)[0].exit_code == 0
    finally:
        for name in (*names, named):
            shutil.rmtree(name, ignore_errors=True)


def test_a_folder_that_has_not_changed_is_not_looked_through_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Any] = []
    real = os.scandir

    def look(where: Any) -> Any:
        looks.append(where)
        return real(where)

    monkeypatch.setattr(os, "scandir", look)
    _lay(place / "mine", MINE)
    os.utime(place, (10**9, 10**9))
    found = [commons.left({MINE}, in_folders=True) for _ in range(3)]
    assert found == [[commons.Left(MINE, str(place / "mine"))]] * 3
    assert len(looks) == 1
    # Of the other ids too.
    assert commons.left({OTHER}, in_folders=True) == [] and len(looks) == 1
    # One who may give it away tells the folder nothing.
    os.chown(place / "mine", OTHER, OTHER)
    monkeypatch.setattr(commons, "_TRUSTED_S", 0.0)
    assert commons.left({MINE}, in_folders=True) == [] and len(looks) == 2


def test_what_came_or_went_is_seen_at_once(place: Path) -> None:
    _lay(place / "mine", MINE)
    os.utime(place, (10**9, 10**9))
    assert len(commons.left({MINE}, in_folders=True)) == 1
    for count in (2, 3, 4):
        # However fast: a folder that changed a moment ago is not trusted.
        _lay(place / f"mine-{count}", MINE)
        assert len(commons.left({MINE}, in_folders=True)) == count
    (place / "mine").unlink()
    assert len(commons.left({MINE}, in_folders=True)) == 3
