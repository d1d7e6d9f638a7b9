"""The output folder at an attempt's end: all plain files go to the portal, nothing else does."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit

import pytest

from scheduler.agent import outputs
from scheduler.agent.client import NotThePortal
from scheduler.agent.node.outputs import UnfitOutput, list_outputs
from scheduler.agent.outputs import OutputShipper
from scheduler.states import EndReason
from scheduler.wire.codec import encode
from scheduler.wire.messages import Refusal
from scheduler.wire.outputs import OUTPUT_PART, OutputList, OutputPlan
from tests.agent.conftest import Agent, assignment, wait_until
from tests.agent.portal import Portal

HOSTILE = """
cd "$TRAINYARD_OUTPUT_DIR"
mkdir -p model && head -c 2500000 /dev/zero | tr '\\0' x > model/last.pt
printf 0.5 > loss.csv
ln -s /etc/passwd link; ln -s / everything; mkfifo pipe
printf bad > "$(printf 'two\\nlines')"
"""


def whole(portal: Portal, order: object) -> dict[str, bytes]:
    fence = order.fence  # type: ignore[attr-defined]
    portal.wait(lambda: fence in portal.outputs_done, what=f"outputs of {fence}")
    return portal.outputs[fence, 0]


def test_files_are_handed_over_and_links_pipes_and_odd_names_are_not(
    portal: Portal, agent: Agent
) -> None:
    order = assignment(HOSTILE)
    report, _ = portal.outcome("alpha", order)
    assert report.end_reason == EndReason.COMPLETED
    found = whole(portal, order)
    assert {name: len(raw) for name, raw in found.items()} == {
        "loss.csv": 3,
        "model/last.pt": 2_500_000,
    }
    refused = {one.name: one.problem for one in portal.refused_outputs[order.fence]}
    assert set(refused) == {"link", "everything", "pipe", "two\\nlines"}
    assert "link" in refused["link"] and "no plain file" in refused["pipe"]


def test_an_upload_goes_on_after_the_agent_was_killed(portal: Portal, agents: object) -> None:
    agent = agents("delta")  # type: ignore[operator]
    script = 'head -c 5000000 /dev/zero > "$TRAINYARD_OUTPUT_DIR/zeros"'
    order = assignment(script)
    portal.hold_outputs_at = 2 * OUTPUT_PART
    portal.assign("delta", order)
    portal.ended("delta", order.fence)
    portal.wait(lambda: len(portal.outputs[order.fence, 0].get("zeros", b"")) >= 2 * OUTPUT_PART)
    portal.forget("delta", order.fence)
    agent.kill()
    portal.hold_outputs_at = None
    agent.start()
    assert whole(portal, order) == {"zeros": bytes(5_000_000)}
    # Only now is the spool entry gone.
    wait_until(lambda: not (agent.state / "spool" / str(order.fence)).exists(), 30)


@pytest.mark.parametrize("status", [401, 403, 409])
def test_an_upload_goes_on_after_a_refusal_that_passes(
    portal: Portal, agent: Agent, status: int
) -> None:
    """A token that is just being renewed; a part that was stored though no answer came back."""
    said: list[str] = []
    order = assignment('head -c 2500000 /dev/zero > "$TRAINYARD_OUTPUT_DIR/zeros"')

    def refuse(path: str) -> tuple[int, object] | None:
        place = urlsplit(path)
        part = f"/attempts/{order.fence}/outputs/0" in place.path
        if not part or said or f"offset={OUTPUT_PART}" not in place.query:
            return None
        said.append(path)
        facts = {"expected": str(2 * OUTPUT_PART)} if status == 409 else {}
        if facts:
            portal.outputs[order.fence, 0]["zeros"] += bytes(OUTPUT_PART)
        return status, Refusal("passing", "not now", facts)

    portal.trouble = refuse
    try:
        portal.outcome("alpha", order)
        assert whole(portal, order) == {"zeros": bytes(2_500_000)} and said
    finally:
        portal.trouble = None


@pytest.mark.parametrize("lasts", [True, False])
def test_an_answer_that_is_not_the_portals_is_outlasted_a_while(
    monkeypatch: pytest.MonkeyPatch, lasts: bool
) -> None:
    """A portal that does not know the call says so for ever, a proxy for a moment."""
    asked: list[float] = []

    def send(fence: int, rank: int, found: OutputList) -> OutputPlan:
        asked.append(time.monotonic())
        if lasts or len(asked) < 4:
            raise NotThePortal(404, "answered 404")
        return OutputPlan(())

    monkeypatch.setattr(outputs, "_UNKNOWN_S", 0.3 if lasts else 60.0)
    slot = SimpleNamespace(entry=SimpleNamespace(assignment=SimpleNamespace(fence=7, rank=0)))
    client = SimpleNamespace(send_outputs=send)
    shipper = OutputShipper(cast(Any, slot), cast(Any, client), 0.05, lambda: None)
    if lasts:
        with pytest.raises(UnfitOutput, match="takes no files"):
            shipper._tell(OutputList())
        assert asked[-1] - asked[0] >= 0.3 and len(asked) > 3
    else:
        assert shipper._tell(OutputList()) == () and len(asked) == 4


def test_a_folder_of_very_many_files_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    class Many:
        """A folder of a million files that counts how many it was asked for."""

        def __enter__(self) -> Iterator[SimpleNamespace]:
            for number in range(1_000_000):
                seen.append(str(number))
                yield SimpleNamespace(name=f"f{number:07}", is_dir=lambda **_: False)

        def __exit__(self, *_: object) -> None:
            return

    monkeypatch.setattr(os, "scandir", lambda _: Many())
    found = list_outputs(str(tmp_path), None)
    assert len(seen) <= 20_001 and found.entries == ()
    assert "only the first" in found.refused[-1].problem


def test_a_list_of_long_names_is_cut_where_the_server_would_refuse_it(tmp_path: Path) -> None:
    below = tmp_path.joinpath(*(sign * 60 for sign in "🚂🚃🚄🚅🚆🚇🚈"))
    below.mkdir(parents=True)
    for number in range(1000):
        (below / f"{number:04}{'🚉' * 60}").touch()
    found = list_outputs(str(tmp_path), None)
    assert len(encode(found)) < 2 * 1024 * 1024
    assert 500 < len(found.entries) < 1000
    (rest,) = found.refused
    assert rest.name == "…" and f"more than {len(found.entries)} files" in rest.problem


def test_devices_sockets_and_files_of_others_are_named(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    sparse = tmp_path / "sparse"
    with open(sparse, "wb") as file:
        file.truncate(17 * 1024**3)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        found = list_outputs(str(tmp_path), os.getuid())
    assert [one.name for one in found.entries] == ["mine"]
    assert {one.name for one in found.refused} == {"socket", "sparse"}
    foreign = list_outputs(str(tmp_path), os.getuid() + 1)
    assert "another user" in {one.name: one.problem for one in foreign.refused}["mine"]


def test_a_folder_that_becomes_a_link_is_not_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever writes there could have the agent name what only root may list."""
    closed, folder = tmp_path / "closed", tmp_path / "outputs"
    (folder / "inner").mkdir(parents=True)
    closed.mkdir()
    (closed / "name-of-root").write_text("x")
    real = os.scandir

    def and_then_swapped(place: int) -> AbstractContextManager[Iterator[os.DirEntry[str]]]:
        found = list(real(place))
        if not (folder / "inner").is_symlink():
            (folder / "inner").rmdir()
            (folder / "inner").symlink_to(closed)
        return nullcontext(iter(found))

    monkeypatch.setattr(os, "scandir", and_then_swapped)
    assert list_outputs(str(folder), None) == OutputList()
