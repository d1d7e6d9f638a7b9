"""Jupyter Lab through the real doors: its page, a kernel, a cell, and nothing asked outside."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import uuid
from pathlib import Path

import pytest

from portal.embedded.programs import LocalNode
from tests.flows.test_sessions import come_in, socket_of, start, until

# A virtual environment with jupyterlab: the one of the tests has none.
OWN = Path(__file__).resolve().parents[2] / ".venv-jupyter"
FOLDER = os.environ.get("TRAINYARD_TEST_JUPYTER", str(OWN))
HOW = "python3 -m venv .venv-jupyter && .venv-jupyter/bin/pip install jupyterlab tensorboard"
pytestmark = [
    pytest.mark.stack,
    pytest.mark.once,
    pytest.mark.timeout(240),
    pytest.mark.skipif(
        not shutil.which("jupyter", path=f"{FOLDER}/bin"),
        reason=f"jupyterlab is not installed: {HOW}",
    ),
]


def asks(code: str) -> str:
    """A message of Jupyter's protocol that lets a kernel run `code`."""
    header = {
        "msg_id": uuid.uuid4().hex, "msg_type": "execute_request", "username": "",
        "session": "test", "version": "5.3",
    }  # fmt: skip
    content = {
        "code": code, "silent": False, "store_history": True, "user_expressions": {},
        "allow_stdin": False,
    }  # fmt: skip
    message = {"header": header, "parent_header": {}, "metadata": {}, "content": content}
    return json.dumps({**message, "channel": "shell", "buffers": []})


async def printed(channels) -> str:
    async with asyncio.timeout(60):
        while True:
            message = json.loads(await channels.recv())
            if message["msg_type"] == "stream":
                return message["content"]["text"]


async def test_a_cell_is_run_through_the_tunnel(make_stack):
    words = ("--path-prefix", f"{FOLDER}/bin", "--expose", FOLDER)
    stack = make_stack((LocalNode("alpha", 1, cpus=4, memory_mib=8192, run_arguments=words),))
    number = await asyncio.to_thread(
        start, stack, {"app": "jupyter", "idle_stop": "10m"}, memory="2GiB"
    )
    browser = await asyncio.to_thread(come_in, stack, number)
    home = f"/s/{number}/"

    def lab():
        reply = browser.get(f"{home}lab")
        return reply.status_code == 200 and reply

    page = await asyncio.to_thread(until, lab, 90)
    assert "JupyterLab" in page.text and '"disabled": true' in page.text.partition('"news"')[2][:30]
    pairs = page.headers.get_list("set-cookie")
    assert pairs and all(f"Path={home}" in pair for pair in pairs)
    sent = {"X-XSRFToken": browser.cookies.get("_xsrf", path=home)}
    reply = await asyncio.to_thread(browser.post, f"{home}api/kernels", headers=sent, json={})
    assert reply.status_code == 201, reply.text
    async with socket_of(stack, browser, f"{home}api/kernels/{reply.json()['id']}/channels") as it:
        await it.send(asks("import os; print(6 * 7, os.environ['TRAINYARD_JOB_ID'])"))
        assert await printed(it) == f"42 {number}\n"
    log = await asyncio.to_thread(stack.log, number)
    assert "Kernel started" in log
