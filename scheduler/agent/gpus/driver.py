"""What CUDA programs need beside the cards: the driver's libraries, and its files below /dev."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
from pathlib import Path

CONTROL_FILES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
_LIBRARY = "libcuda.so.1"
_MAKE_FILES = ("nvidia-modprobe", "-u", "-c", "0")
_PATIENCE_S = 30.0

logger = logging.getLogger(__name__)


def library_folders() -> tuple[str, ...]:
    """Folders of our own LD_LIBRARY_PATH that hold the driver's library.

    Containers are often given the driver that way alone. Jobs get an environment of their own, and
    would not find what the agent finds.
    """
    named = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return tuple(dict.fromkeys(each for each in named if each and (Path(each) / _LIBRARY).exists()))


def missing_files(files: tuple[str, ...] = CONTROL_FILES[:2]) -> list[str]:
    """Those that every CUDA program opens and that are not there."""
    return [file for file in files if not os.path.exists(file)]


def make_files() -> None:
    """Have the files made that are missing; needs root and the driver's own program for it.

    The first CUDA program after a boot makes them through that program, which is set-uid. A job
    gains no rights, and its sandbox is made before it starts: none could.
    """
    program = shutil.which(_MAKE_FILES[0])
    if os.geteuid() != 0 or program is None or not missing_files():
        return
    try:
        subprocess.run(
            [program, *_MAKE_FILES[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        logger.warning("%s does not run: %s", program, error)
    if missing := missing_files():
        logger.warning("%s: missing still after %s", ", ".join(missing), " ".join(_MAKE_FILES))
