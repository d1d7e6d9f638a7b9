"""What a program says of its checkpoints is held against the files, and nothing else is read."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scheduler.agent.runtime.checkpoints import CheckRequest, Finding, look
from scheduler.wire.messages import Checkpoint

WEIGHTS = b"weights of step 12"


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def leave(folder: Path, **changes: Any) -> dict[str, Any]:
    """A whole checkpoint and its note; keywords replace the note's fields, None leaves one out."""
    (folder / "step-12").write_bytes(WEIGHTS)
    note: dict[str, Any] = {
        "path": "step-12",
        "step": 12,
        "bytes": len(WEIGHTS),
        "digest": f"sha256:{digest_of(WEIGHTS)}",
        **changes,
    }
    note = {key: value for key, value in note.items() if value is not None}
    (folder / "checkpoint.json").write_text(json.dumps(note))
    return note


def confirm(folder: Path, seen: str = "") -> Finding:
    return look(CheckRequest(str(folder), seen=seen))


def resume(folder: Path, offer: Checkpoint | None = None, *, is_gang: bool = False) -> Finding:
    return look(CheckRequest(str(folder), resumes=True, offer=offer, only_offer=is_gang))


def test_a_whole_checkpoint_is_confirmed_with_its_time(tmp_path: Path) -> None:
    leave(tmp_path)
    os.utime(tmp_path / "step-12", (1_000_000, 1_000_000))
    found = confirm(tmp_path)
    path = f"{tmp_path}/step-12"
    assert found.confirmed == Checkpoint(path, 12, len(WEIGHTS), digest_of(WEIGHTS), 1_000_000)
    assert found.problem == ""


def test_an_absolute_path_below_the_folder_and_a_bare_digest_will_do(tmp_path: Path) -> None:
    leave(tmp_path, path=f"{tmp_path}/step-12", digest=digest_of(WEIGHTS))
    assert confirm(tmp_path).confirmed is not None


def test_a_note_seen_before_is_not_read_again(tmp_path: Path) -> None:
    leave(tmp_path)
    found = confirm(tmp_path)
    assert confirm(tmp_path, found.mark) == Finding(found.mark)


def test_no_note_is_no_problem(tmp_path: Path) -> None:
    assert confirm(tmp_path) == Finding() == resume(tmp_path)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"digest": digest_of(b"another")}, "does not have the digest"),
        ({"bytes": 3}, "has 18 bytes, the note says 3"),
        ({"path": "../outside"}, "lies outside the checkpoint folder"),
        ({"path": "a/../../outside"}, "lies outside"),
        ({"path": "/etc/passwd"}, "lies outside"),
        ({"path": "gone"}, "No such file"),
        ({"path": "a\0b"}, "path must be"),
        ({"path": "x" * 2000}, "path must be"),
        ({"path": 3}, "path must be"),
        ({"path": "."}, "lies outside"),
        ({"step": -1}, "step must be a whole number"),
        ({"step": True}, "step must be"),
        ({"step": 1.5}, "step must be"),
        ({"step": 2**63}, "step must be"),
        ({"bytes": "18"}, "bytes must be"),
        ({"digest": "md5:1"}, "digest must be sha256"),
        ({"digest": None, "step": None}, "step, digest missing"),
    ],
)
def test_a_wrong_note_is_refused_by_name(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    leave(tmp_path, **changes)
    found = confirm(tmp_path)
    assert found.confirmed is None
    assert problem in found.problem


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "is not JSON"),
        ('{"path": "step-12", "st', "is not JSON"),
        ("[]", "must be an object"),
        ("[" * 5000, "is not JSON"),
        ('{"step": ' + "9" * 5000 + "}", "is not JSON"),
        ('{"path": "' + "x" * 10_000_000 + '"}', "longer than 65536 bytes"),
    ],
)
def test_a_note_that_is_none_is_refused(tmp_path: Path, content: str, problem: str) -> None:
    leave(tmp_path)
    (tmp_path / "checkpoint.json").write_text(content)
    assert problem in confirm(tmp_path).problem
    assert resume(tmp_path).path == ""


def test_links_are_followed_nowhere(tmp_path: Path) -> None:
    folder, outside = tmp_path / "own", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    note = leave(outside)
    (folder / "step-12").symlink_to(outside / "step-12")
    (folder / "checkpoint.json").write_text(json.dumps(note))
    assert "without links" in confirm(folder).problem
    (folder / "sub").symlink_to(outside)
    (folder / "checkpoint.json").write_text(json.dumps({**note, "path": "sub/step-12"}))
    assert "without links" in confirm(folder).problem
    (folder / "checkpoint.json").unlink()
    (folder / "checkpoint.json").symlink_to(outside / "checkpoint.json")
    assert confirm(folder).confirmed is None and resume(folder).path == ""


@pytest.mark.parametrize("which", ["checkpoint.json", "step-12"])
def test_a_pipe_does_not_hang_anybody(tmp_path: Path, which: str) -> None:
    leave(tmp_path)
    (tmp_path / which).unlink()
    os.mkfifo(tmp_path / which)
    assert "no plain file" in confirm(tmp_path).problem


def test_the_folder_itself_may_be_gone(tmp_path: Path) -> None:
    assert "No such file" in confirm(tmp_path / "gone").problem


def offer_of(folder: Path, step: int, content: bytes, name: str) -> Checkpoint:
    (folder / name).write_bytes(content)
    return Checkpoint(f"{folder}/{name}", step, len(content), digest_of(content))


def test_the_newer_of_note_and_offer_is_resumed_from(tmp_path: Path) -> None:
    leave(tmp_path)
    older, newer = (offer_of(tmp_path, step, b"x" * step, f"s-{step}") for step in (11, 13))
    assert resume(tmp_path, older).step == 12
    assert resume(tmp_path, newer).step == 13
    assert resume(tmp_path).path == f"{tmp_path}/step-12"


def test_all_ranks_of_a_gang_take_the_offer_or_nothing(tmp_path: Path) -> None:
    leave(tmp_path)
    older = offer_of(tmp_path, 11, b"x" * 11, "s-11")
    assert resume(tmp_path, older, is_gang=True).step == 11
    gone = replace(older, path=f"{tmp_path}/gone")
    found = resume(tmp_path, gone, is_gang=True)
    assert (found.path, found.confirmed) == ("", None)
    assert found.mark == confirm(tmp_path).mark, "the note is known, so it is not told as new"
    assert "step 11 is of no use here: gone" in found.problem


def test_an_offer_that_was_damaged_or_lies_elsewhere_is_not_resumed_from(tmp_path: Path) -> None:
    offer = offer_of(tmp_path, 11, b"x" * 11, "s-11")
    (tmp_path / "s-11").write_bytes(b"y" * 11)
    assert "digest" in resume(tmp_path, offer).problem
    assert resume(tmp_path, offer).path == ""
    assert resume(tmp_path, replace(offer, path="/etc/passwd")).path == ""


def test_a_damaged_note_falls_back_to_the_offer(tmp_path: Path) -> None:
    leave(tmp_path, digest=digest_of(b"another"))
    offer = offer_of(tmp_path, 11, b"x" * 11, "s-11")
    assert resume(tmp_path, offer).step == 11


def test_a_note_without_a_digest_is_resumed_from_but_not_confirmed(tmp_path: Path) -> None:
    leave(tmp_path, digest=None, bytes=None, step=None)
    found = resume(tmp_path)
    assert (found.path, found.confirmed) == (f"{tmp_path}/step-12", None)
