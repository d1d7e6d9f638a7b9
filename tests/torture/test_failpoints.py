"""Fail-points: inert by themselves, and one order is obeyed once."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler import failpoints

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def orders(tmp_path, monkeypatch):
    monkeypatch.setattr(failpoints, "_FOLDER", str(tmp_path))
    return tmp_path


def test_nothing_happens_where_nobody_asked():
    assert failpoints._FOLDER == ""
    failpoints.reach("agent.accepted")


def test_an_order_is_obeyed_once_and_by_its_point_alone(orders):
    (orders / "one").write_text("fail")
    failpoints.reach("two")
    with pytest.raises(OSError, match="fail-point one"):
        failpoints.reach("one")
    failpoints.reach("one")
    assert [path.name for path in orders.iterdir()] == ["one.hit"]


def test_kill_is_a_kill(tmp_path):
    (tmp_path / "here").write_text("kill")
    words = "from scheduler.failpoints import reach; reach('here'); print('lived')"
    done = subprocess.run(
        [sys.executable, "-c", words],
        cwd=ROOT,
        env={failpoints.VARIABLE: str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"")


def test_every_point_is_in_the_readme():
    points = set()
    for path in (ROOT / "scheduler").rglob("*.py"):
        points |= set(re.findall(r'reach\("([a-z]+\.[a-z-]+)"\)', path.read_text()))
    text = (ROOT / "scheduler" / "README.md").read_text()
    assert len(points) > 20
    assert [point for point in points if f"`{point.partition('.')[2]}`" not in text
            and f"`{point}`" not in text] == []  # fmt: skip
