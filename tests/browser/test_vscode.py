"""VS Code as code-server serves it, through the real doors: a file is opened and run."""

from __future__ import annotations

import os
import shutil

import pytest
from playwright.sync_api import expect

from portal.embedded.programs import LocalNode
from tests.browser.conftest import sign_in
from tests.flows.test_sessions import start, until

# A folder with `code-server` and the `node` it runs on.
FOLDER = os.environ.get("TRAINYARD_TEST_CODE_SERVER", os.environ.get("PATH", ""))
FOUND = shutil.which("code-server", path=FOLDER)
pytestmark = [
    pytest.mark.long,
    pytest.mark.stack,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not FOUND, reason="code-server is missing: npm install -g code-server"),
]


def test_a_file_is_opened_and_run_in_the_terminal(make_stack, chromium, tmp_path_factory):
    place = tmp_path_factory.mktemp("code")
    (place / "train.py").write_text("print('loss', 6 * 7)\n")
    place.chmod(0o777)
    for folder in place.parents[:2]:
        folder.chmod(0o755)
    real = os.path.realpath(str(FOUND)).partition("/node_modules/")[0]
    folder = os.path.dirname(str(FOUND))
    shown = [word for each in (folder, real, str(place)) for word in ("--expose", each)]
    words = ("--path-prefix", folder, *shown)
    stack = make_stack((LocalNode("alpha", 1, cpus=4, memory_mib=8192, run_arguments=words),))
    asked = {"app": "vscode", "idle_stop": "10m"}
    number = start(stack, asked, memory="3GiB", working_dir=str(place))
    context = chromium.new_context(base_url=stack.address)
    page = context.new_page()
    sign_in(page, "alice", stack.password("alice"))
    page.goto(f"/sessions/{number}/")
    with context.expect_page() as opened:
        page.get_by_role("button", name="Connect").click()
    code = opened.value
    expect(code.get_by_text("Explorer").first).to_be_visible(timeout=180_000)
    code.get_by_text("train.py").first.click()
    expect(code.locator(".view-line").first).to_contain_text("print")
    code.keyboard.press("Control+Shift+Backquote")
    code.locator(".xterm-helper-textarea").first.wait_for(state="attached")
    code.wait_for_timeout(3_000)  # the prompt is drawn on a canvas
    code.keyboard.type("python3 train.py > seen; echo $TRAINYARD_JOB_ID >> seen\n")
    seen = place / "seen"
    until(lambda: seen.exists() and seen.read_text() == f"loss 42\n{number}\n", 60)
    context.close()
