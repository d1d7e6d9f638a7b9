"""A test that ends its process is told of and begun again; the others are run all the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

DIES_ONCE = """
import os, pathlib, time, pytest
@pytest.fixture
def late():
    yield
    mark = pathlib.Path(__file__).with_name("died")
    if not mark.exists():
        mark.write_text("")
        time.sleep(1)
        os._exit(1)
def test_before(): pass
def test_it(late): pass
"""
FINE = "def test_one(): pass\n"


def test_the_last_test_of_all_is_begun_again(tmp_path: Path) -> None:
    for name, text in (("test_a.py", DIES_ONCE), ("test_b.py", FINE), ("test_c.py", FINE)):
        (tmp_path / name).write_text(text)
    root = str(Path(__file__).parents[2])
    plugins = ("-p", "xdist", "-p", "tests.begun_again", "-p", "no:cacheprovider")
    how = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "-q")
    done = subprocess.run(
        (sys.executable, "-m", "pytest", *plugins, *how, f"--rootdir={tmp_path}", str(tmp_path)),
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": root},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert "crashed while running 'test_a.py::test_it'" in done.stdout, done.stdout + done.stderr
    # It was told as passed before its process died, and again.
    assert "1 failed, 5 passed" in done.stdout, done.stdout
