"""The pictures of the README: a gang at work, its logs, and who waits for it."""

from __future__ import annotations

import time
from pathlib import Path

from playwright.sync_api import Browser

from tests.browser.conftest import sign_in
from tests.servers import LiveStack, running_stack

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "pictures"
SIZE = {"width": 1280, "height": 820}
# So long the jobs are at work before their picture is taken, for charts and logs to show something.
_AT_WORK_S = 45
_WORK = """trap 'exit 0' TERM
i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo "step $i/3000"; sleep 1; done
"""


def show(browser: Browser) -> None:
    """Take them all."""
    FOLDER.mkdir(exist_ok=True)
    with running_stack() as stack:
        jobs = _populate(stack)
        time.sleep(_AT_WORK_S)
        context = browser.new_context(base_url=stack.address, color_scheme="light", viewport=SIZE)
        context.set_default_timeout(90_000)
        page = context.new_page()
        sign_in(page, "admin", stack.password("admin"))
        for name, address in {
            "job": f"/jobs/{jobs['gang']}/",
            "ranks": f"/jobs/{jobs['gang']}/logs/ranks/",
            "why": f"/jobs/{jobs['waiting']}/",
            "sooner": f"/jobs/{jobs['gang']}/change/?nodes=1",
        }.items():
            page.goto(address)
            page.wait_for_load_state("load")
            page.wait_for_timeout(1500)
            page.screenshot(path=str(FOLDER / f"{name}.png"))
        context.close()


def _populate(stack: LiveStack) -> dict[str, int]:
    """An elastic gang on both nodes, jobs of another team beside it, and one that waits."""
    gang = stack.submit(
        name="llm-pretrain-7b", script=_WORK, nodes="1..2", gpus_per_node=4, time_limit="4h"
    )
    stack.wait_for(gang["id"], "running")
    there = {"script": _WORK, "project": "language/pretraining", "time_limit": "2h"}
    for name in ("ablation-a", "ablation-b"):
        stack.submit("chen", name=name, gpus_per_node=2, **there)
    waiting = stack.submit("chen", name="long-context-run", gpus_per_node=8, **there)
    return {"gang": gang["id"], "waiting": waiting["id"]}
