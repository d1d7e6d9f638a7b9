"""Jobs in sandboxes on real cards: only the granted files, and CUDA works with them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from portal.embedded.programs import LocalNode
from scheduler.agent.gpus import NvmlGpus
from tests.gpu.conftest import ON_CARD
from tests.gpu.seeing import said, seen
from tests.servers import LiveStack, running_stack

pytestmark = [pytest.mark.gpu, pytest.mark.stack, pytest.mark.timeout(240)]

NODE = LocalNode("boxed", simulated_gpus=0, run_arguments=("--isolation", "sandbox"))
PROGRAM = ON_CARD.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def boxed(gpus: NvmlGpus) -> Iterator[LiveStack]:
    if shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap: apt-get install bubblewrap")
    with running_stack((NODE,)) as live:
        yield live


def log_of(stack: LiveStack, **fields: object) -> str:
    job = stack.submit(script=PROGRAM, **fields)["id"]
    done = stack.wait_for(job, timeout_s=60)
    text = stack.log(job)
    assert done["state"] == "succeeded", text
    return text


def test_it_has_the_files_of_its_card_and_cuda_works(boxed: LiveStack, gpus: NvmlGpus) -> None:
    log = log_of(boxed, env={"MIB": "1024", "SECONDS": "2"})
    (uuid,) = seen(log)
    assert uuid in {one.uuid for one in gpus.inventory()}
    granted = {file for file in gpus.device_files([uuid]) if os.path.exists(file)}
    assert set(said("files", log)) == granted and said("holds", log) == ["1024"]


def test_without_a_card_there_are_no_files(boxed: LiveStack) -> None:
    log = log_of(boxed, gpus_per_node=0)
    assert said("files", log) == [] and seen(log) == []
