"""Data sets that lie on a node are found, measured and told."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from scheduler.agent.node.data import look
from scheduler.agent.runtime.space.trees import remove_tree
from scheduler.wire.codec import decode, encode
from scheduler.wire.data import DataReport
from tests.agent.conftest import wait_until
from tests.agent.portal import Portal


def test_a_node_tells_what_lies_there_and_what_it_leaves_out(
    portal: Portal, folder: Path, agents: Any
) -> None:
    data = folder / "data"
    for name in ("laion/train", "mnist", "Bad Name", ".cache"):
        (data / name).mkdir(parents=True)
    (data / "laion" / "train" / "a.tar").write_bytes(b"x" * (2**20 + 1))
    (data / "laion" / "again").symlink_to(data / "laion" / "train")
    (data / "notes.txt").write_text("no folder")
    agents("alpha", "--data", str(data), "--data-every-s", "0.3")

    def told() -> list[Any]:
        return [sync.data for sync in portal.nodes["alpha"].syncs if sync.data]

    wait_until(lambda: bool(told()))
    assert [(one.name, one.size_mib) for one in told()[-1].copies] == [("laion", 2), ("mnist", 0)]
    assert "left out Bad Name" in told()[-1].problem
    (data / "mnist" / "b.gz").write_bytes(b"x")
    wait_until(lambda: told()[-1].copies[1].size_mib == 1)
    assert len(told()) < len(portal.nodes["alpha"].syncs), "what is known is not told again"


def test_a_name_of_odd_bytes_is_told_as_far_as_it_can_be(tmp_path: Path) -> None:
    os.mkdir(os.fsencode(tmp_path) + b"/caf\xe9")
    found = look([tmp_path])
    assert "left out caf\\xe9" in found.problem
    assert decode(DataReport, encode(found)) == found


def test_too_many_and_none_at_all_are_said(tmp_path: Path) -> None:
    for number in range(201):
        (tmp_path / f"set-{number:03}").mkdir()
    found = look([tmp_path, tmp_path / "gone"])
    assert len(found.copies) == 200
    assert "only the first 200 of 201" in found.problem and "gone cannot be read" in found.problem


def test_folders_nested_as_deep_as_paths_are_long_are_measured(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    # pytest itself could not.
    request.addfinalizer(lambda: remove_tree(tmp_path))
    place = str(tmp_path / "deep")
    while len(place) < 4000:
        os.mkdir(place)
        place += "/d"
    Path(place).write_bytes(b"x" * (2**20 + 1))
    (tmp_path / "link").symlink_to(tmp_path / "deep")
    assert [(one.name, one.size_mib) for one in look([tmp_path]).copies] == [
        ("deep", 2),
        ("link", 2),
    ]
