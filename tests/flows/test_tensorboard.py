"""TensorBoard through the real doors: its page, what it read of the job's folder, and no port."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest

from portal.embedded.programs import LocalNode
from tests.flows.test_jupyter import FOLDER, HOW
from tests.flows.test_sessions import come_in, start, until

pytestmark = [
    pytest.mark.stack,
    pytest.mark.once,
    pytest.mark.timeout(240),
    pytest.mark.skipif(
        not shutil.which("tensorboard", path=f"{FOLDER}/bin"),
        reason=f"tensorboard is not installed: {HOW}",
    ),
]
WRITE = """
import sys
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
writer = EventFileWriter(sys.argv[1])
for step in range(3):
    loss = Summary.Value(tag="loss", simple_value=2.5 - step)
    writer.add_event(Event(wall_time=1.0 + step, step=step, summary=Summary(value=[loss])))
writer.close()
"""


@pytest.fixture
def runs(tmp_path_factory):
    """A folder with the events of one run, as a job has left it."""
    place = tmp_path_factory.mktemp("runs")
    subprocess.run([f"{FOLDER}/bin/python", "-c", WRITE, place / "first"], check=True)
    for folder in (place, *place.parents[:2]):
        folder.chmod(0o755)
    return place


async def test_the_curves_of_a_folder_are_seen_through_the_tunnel(make_stack, runs: Path):
    words = ("--path-prefix", f"{FOLDER}/bin", "--expose", FOLDER, "--expose", str(runs))
    stack = make_stack((LocalNode("alpha", 1, cpus=4, memory_mib=8192, run_arguments=words),))
    asked = {"app": "tensorboard", "idle_stop": "10m"}
    number = await asyncio.to_thread(start, stack, asked, memory="2GiB", working_dir=str(runs))
    browser = await asyncio.to_thread(come_in, stack, number)
    home = f"/s/{number}/"

    def read(address: str):
        reply = browser.get(home + address)
        return reply if reply.status_code == 200 else None

    page = await asyncio.to_thread(until, lambda: read(""), 90)
    assert 'name="tb-relative-root" content="./"' in page.text
    tags = await asyncio.to_thread(
        until, lambda: (it := read("data/plugin/scalars/tags")) and it.json(), 60
    )
    assert list(tags["first"]) == ["loss"]
    points = read("data/plugin/scalars/scalars?run=first&tag=loss").json()
    assert [point[1:] for point in points] == [[0, 2.5], [1, 1.5], [2, 0.5]]
    log = await asyncio.to_thread(stack.log, number)
    assert f"TensorBoard serves {runs} below {home}" in log and "GET /" not in log


async def test_a_job_without_tensorboard_says_what_to_do(make_stack):
    stack = make_stack()
    with stack.api("alice") as api:
        spec = {"name": "curves", "project": "vision/digits", "session": "tensorboard"}
        reply = api.post("/jobs/", json={**spec, "time_limit": "5m", "gpus_per_node": 0})
        assert reply.status_code == 201, reply.text
    number = reply.json()["id"]
    await asyncio.to_thread(stack.wait_for, number, "failed")
    log = await asyncio.to_thread(stack.log, number)
    assert "has no TensorBoard" in log and "pip install tensorboard" in log
