"""`deploy/setup.sh` with a Python and a uv in name alone: when it makes something, and what."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = r"""#!/bin/sh
site="FOLDER/.venv/lib/python$(cat FOLDER/minor)/site-packages"
case "$1 $2" in
    "-m venv")
        echo made >> FOLDER/log
        rm -rf "$4" && mkdir -p "$4/bin" "$site" && cp FOLDER/uv FOLDER/python "$4/bin"
        ;;
    "-m pip") [ "$3" = --version ] || echo pip >> FOLDER/log ;;
    "-c "*)
        case "$2" in
            *trainyard.pth*) [ -f "$site/trainyard.pth" ] ;;
            *print*purelib*) echo "$site" ;;
        esac
        ;;
esac
"""
UV = r"""#!/bin/sh
[ "$1" = pip ] || exit 0
sleep 0.2
echo uv >> FOLDER/log
[ ! -e FOLDER/uv-fails ]
"""


class Checkout:
    """A folder with the script and its two lock files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "deploy").mkdir()
        shutil.copy(ROOT / "deploy" / "setup.sh", folder / "deploy")
        for name in ("requirements.lock", "requirements-dev.lock"):
            (folder / name).write_text(f"{name.removesuffix('.lock')}==1\n")
        for name, text in (("python", PYTHON), ("uv", UV)):
            (folder / name).write_text(text.replace("FOLDER", str(folder)))
            (folder / name).chmod(0o755)
        (folder / "minor").write_text("3.11")

    def begin(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["/bin/sh", "deploy/setup.sh"],
            cwd=self.folder,
            env={**os.environ, "PYTHON": str(self.folder / "python")},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def setup(self) -> list[str]:
        """What is done."""
        assert self.begin().wait(timeout=30) == 0
        return self.done()

    def done(self) -> list[str]:
        log = self.folder / "log"
        words = log.read_text().split() if log.exists() else []
        log.unlink(missing_ok=True)
        return words


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_a_second_setup_does_nothing_until_a_lock_file_changes(checkout: Checkout) -> None:
    assert checkout.setup() == ["made", "uv"]
    assert checkout.setup() == []
    (checkout.folder / "requirements.lock").write_text("requirements==2\n")
    assert checkout.setup() == ["uv"]


def test_another_python_behind_the_link_has_an_environment_of_its_own(checkout: Checkout) -> None:
    """As after an upgrade of Debian: the stamp was right, and nothing could be imported."""
    checkout.setup()
    (checkout.folder / "minor").write_text("3.13")
    assert checkout.setup() == ["made", "uv"]
    assert checkout.setup() == []


def test_what_an_interrupted_setup_has_left_is_made_anew(checkout: Checkout) -> None:
    checkout.setup()
    (checkout.folder / ".venv" / ".installed").unlink()
    assert checkout.setup() == ["made", "uv"]


def test_pip_begins_without_what_uv_has_left(checkout: Checkout) -> None:
    (checkout.folder / "uv-fails").touch()
    assert checkout.setup() == ["made", "uv", "made", "pip"]
    assert checkout.setup() == []


@pytest.mark.skipif(shutil.which("flock") is None, reason="flock is not installed (util-linux)")
def test_of_two_at_once_one_works(checkout: Checkout) -> None:
    both = [checkout.begin(), checkout.begin()]
    assert [each.wait(timeout=30) for each in both] == [0, 0]
    assert checkout.done() == ["made", "uv"]
