"""`trainyard outputs --download`: in pieces, whole or not at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from portal.cli.__main__ import run
from portal.cli.exits import TRY_AGAIN, UNREACHABLE, USAGE

pytestmark = pytest.mark.once
CONTENT = bytes(range(256)) * 40


class Breaking(httpx.SyncByteStream):
    """Bytes from `offset` on, in pieces of which the connection carries so many."""

    def __init__(self, offset: int, pieces: int) -> None:
        self.rest, self.pieces = CONTENT[offset:], pieces

    def __iter__(self) -> Iterator[bytes]:
        for number in range(0, len(self.rest), 1000):
            if number >= self.pieces * 1000:
                raise httpx.ReadError("reset")
            yield self.rest[number : number + 1000]


def portal(*states: str, digest: str = "", pieces: int = 10**6):
    """A job with one file for each state; all have the same bytes."""
    shown = {"rank": 0, "size": len(CONTENT), "problem": ""}
    shown["sha256"] = digest or hashlib.sha256(CONTENT).hexdigest()
    files = [
        shown | {"id": number, "name": f"out/{number}", "state": state}
        for number, state in enumerate(states)
    ]

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/outputs/"):
            return httpx.Response(200, json={"items": files, "next_cursor": None})
        offset = int(request.url.params.get("offset", 0))
        return httpx.Response(200, stream=Breaking(offset, pieces))

    return answer


def download(folder: Path, *words: str) -> int:
    return run(["outputs", "7", "--download", str(folder), *words])


def left_in(folder: Path) -> list[str]:
    return sorted(str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file())


@pytest.mark.parametrize("pieces", [10**6, 3])
def test_a_file_comes_in_pieces_and_goes_on_where_it_broke(portal_is, tmp_path, pieces):
    portal_is(portal("whole", pieces=pieces))
    assert download(tmp_path) == 0
    assert (tmp_path / "out/0").read_bytes() == CONTENT
    assert left_in(tmp_path) == ["out/0"]


def test_a_connection_that_carries_nothing_ends_it(portal_is, tmp_path, capsys):
    portal_is(portal("whole", pieces=0))
    assert download(tmp_path) == UNREACHABLE
    assert "does not answer" in capsys.readouterr().err
    assert not left_in(tmp_path)


def test_what_is_still_on_its_way_is_named(portal_is, tmp_path, capsys):
    portal_is(portal("whole", "arriving", "pruned"))
    assert download(tmp_path) == TRY_AGAIN
    out, err = capsys.readouterr()
    assert "not there: out/2: pruned" in out and "out/1" not in out
    assert "1 of 3 files" in err and "out/1" in err and "the same command" in err
    assert download(tmp_path, "--json") == TRY_AGAIN
    out, err = capsys.readouterr()
    assert [one["name"] for one in json.loads(out)["items"]] == ["out/0"]
    assert json.loads(err)["details"] == ["out/1"]


def test_what_is_on_a_node_that_is_not_heard_is_named(portal_is, tmp_path, capsys):
    portal_is(portal("whole", "away"))
    assert download(tmp_path) == TRY_AGAIN
    out, err = capsys.readouterr()
    assert "out/1" not in out
    assert "1 of 2 files are on a node that is not heard" in err and "operator" in err


def test_all_that_is_not_there_yet_is_named(portal_is, tmp_path, capsys):
    portal_is(portal("arriving", "whole", "away", "arriving"))
    assert download(tmp_path, "--json") == TRY_AGAIN
    told = json.loads(capsys.readouterr().err)
    assert told["details"] == ["out/2", "out/0", "out/3"]
    assert download(tmp_path) == TRY_AGAIN
    err = " ".join(capsys.readouterr().err.split())
    assert "1 of 4 files are on a node that is not heard, and 2 are still on their way" in err
    assert "Ask an operator. Fetch them in a moment" in err and "trainyard outputs 7" in err


def test_other_bytes_leave_nothing(portal_is, tmp_path, capsys):
    portal_is(portal("whole", digest="0" * 64))
    assert download(tmp_path) == USAGE
    assert "did not arrive as it was sent" in capsys.readouterr().err
    assert not left_in(tmp_path)


def test_a_folder_that_takes_no_files_is_named(portal_is, tmp_path, capsys):
    portal_is(portal("whole"))
    (tmp_path / "out").write_text("a file")
    assert download(tmp_path) == USAGE
    err = capsys.readouterr().err
    assert str(tmp_path / "out/0") in err and "another folder" in err


def test_a_full_disk_is_said_and_gets_its_room_back(portal_is, tmp_path, monkeypatch, capsys):
    portal_is(portal("whole"))

    def full(self: Path, *_: object):
        self.touch()
        return open("/dev/full", "wb")

    monkeypatch.setattr(Path, "open", full)
    assert download(tmp_path) == USAGE
    assert "No space left on device" in capsys.readouterr().err
    assert not left_in(tmp_path)
