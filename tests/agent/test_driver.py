"""What CUDA programs need of the driver: where its libraries are, and its files below /dev."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from scheduler.agent.config import Options, with_libraries
from scheduler.agent.gpus import driver


def test_only_folders_with_the_drivers_library_are_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("driver", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "driver" / "libcuda.so.1").touch()
    named = f"{tmp_path}/other:{tmp_path}/driver::{tmp_path}/gone:{tmp_path}/driver"
    monkeypatch.setenv("LD_LIBRARY_PATH", named)
    assert driver.library_folders() == (f"{tmp_path}/driver",)
    monkeypatch.delenv("LD_LIBRARY_PATH")
    assert driver.library_folders() == ()


def test_what_is_handed_on_is_shown_to_jobs() -> None:
    options = with_libraries(Options(Path(), Path(), expose=("/data",)), ("/driver",))
    assert (options.library_path, options.expose) == (("/driver",), ("/data", "/driver"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make device files")
def test_missing_files_are_made_by_the_drivers_own_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = tmp_path / "nvidia-uvm"
    missing = driver.missing_files
    monkeypatch.setattr(driver, "missing_files", lambda: missing((str(wanted),)))
    program = tmp_path / "nvidia-modprobe"
    program.write_text(f'#!/bin/sh\n[ "$*" = "-u -c 0" ] && touch {wanted}\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    driver.make_files()
    assert wanted.exists() and not caplog.text
    wanted.unlink()
    program.write_text("#!/bin/sh\nexit 1\n")
    driver.make_files()
    assert f"{wanted}: missing still" in caplog.text
