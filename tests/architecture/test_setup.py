"""`deploy/setup.sh` with a Python and a uv in name alone: when it makes something, and what."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = r"""#!/bin/sh
lib="lib/python$(cat FOLDER/minor)/site-packages"
site="$(dirname "$0")/../$lib"
case "$1 $2" in
    "-m venv")
        echo made >> FOLDER/log
        rm -rf "$4" && mkdir -p "$4/bin" "$4/$lib" && cp FOLDER/uv FOLDER/python "$4/bin"
        printf '#!%s/bin/python\n' "$4" > "$4/bin/told"
        echo "command = $4" > "$4/pyvenv.cfg"
        chmod 750 "$4/bin/told"
        ;;
    "-m pip")
        [ "$3 $4" = "install -q" ] && exit 0
        echo pip >> FOLDER/log
        [ ! -e FOLDER/pip-fails ]
        ;;
    "-c "*)
        case "$2" in
            *replace*) exec REAL "$@" ;;
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
            text = text.replace("FOLDER", str(folder)).replace("REAL", sys.executable)
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        (folder / "minor").write_text("3.11")

    def begin(self, python: str | None = None) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["/bin/sh", "deploy/setup.sh"],
            cwd=self.folder,
            env={**os.environ, "PYTHON": str(self.folder / "python") if python is None else python},
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
    assert checkout.setup() == ["made", "uv"]


def test_another_python_behind_the_link_has_an_environment_of_its_own(checkout: Checkout) -> None:
    """As after an upgrade of Debian: the stamp was right, and nothing could be imported."""
    checkout.setup()
    (checkout.folder / "minor").write_text("3.13")
    assert checkout.setup() == ["made", "uv"]
    assert checkout.setup() == []


def test_the_python_that_was_named_once_is_kept(checkout: Checkout) -> None:
    checkout.setup()
    (checkout.folder / "requirements.lock").write_text("requirements==2\n")
    assert checkout.begin(python="").wait(timeout=30) == 0
    assert checkout.done() == ["made", "uv"]


def test_what_an_interrupted_setup_has_left_is_made_anew(checkout: Checkout) -> None:
    checkout.setup()
    (checkout.folder / ".venv" / ".installed").unlink()
    assert checkout.setup() == ["made", "uv"]


def test_pip_begins_without_what_uv_has_left(checkout: Checkout) -> None:
    (checkout.folder / "uv-fails").touch()
    assert checkout.setup() == ["made", "uv", "made", "pip"]
    assert checkout.setup() == []


def test_what_a_portal_runs_on_stays_until_all_that_takes_its_place_is_there(
    checkout: Checkout,
) -> None:
    checkout.setup()
    (checkout.folder / "requirements.lock").write_text("requirements==2\n")
    (checkout.folder / "uv-fails").touch()
    (checkout.folder / "pip-fails").touch()
    in_use = checkout.folder / ".venv"
    inode = in_use.stat().st_ino
    for _ in range(2):
        assert checkout.begin().wait(timeout=30) != 0
        assert checkout.done() == ["made", "uv", "made", "pip"]
        assert in_use.stat().st_ino == inode
        assert (in_use / "bin" / "python").exists()
        assert (in_use / "lib/python3.11/site-packages/trainyard.pth").exists()
    (checkout.folder / "uv-fails").unlink()
    assert checkout.setup() == ["made", "uv"]
    assert in_use.stat().st_ino != inode
    assert [one.name for one in checkout.folder.glob(".venv*")] == [".venv"]


def test_what_is_installed_names_the_place_where_it_is_used(checkout: Checkout) -> None:
    checkout.setup()
    script, settings = (checkout.folder / ".venv" / name for name in ("bin/told", "pyvenv.cfg"))
    assert script.read_text() == f"#!{checkout.folder}/.venv/bin/python\n"
    assert script.stat().st_mode & 0o777 == 0o750
    assert settings.read_text() == f"command = {checkout.folder}/.venv\n"


@pytest.mark.skipif(shutil.which("flock") is None, reason="flock is not installed (util-linux)")
def test_of_two_at_once_one_works(checkout: Checkout) -> None:
    both = [checkout.begin(), checkout.begin()]
    assert [each.wait(timeout=30) for each in both] == [0, 0]
    assert checkout.done() == ["made", "uv"]
