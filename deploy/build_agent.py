"""Packs the agent and all it needs into one file: `trainyard-agent.pyz`.

    python deploy/build_agent.py [--output trainyard-agent.pyz]

Nothing is downloaded: the libraries are taken as they are installed in this environment, so the
file fits machines of this kind (same processor, same C library or newer, Python 3.11 or newer).
The portal, the scheduler's server side and Django stay out.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
OWN = (
    "scheduler/__init__.py",
    "scheduler/failpoints.py",
    "scheduler/states",
    "scheduler/wire",
    "scheduler/agent",
)
LIBRARIES = ("psutil", "nvidia-ml-py", "websockets")
ENTRY = "scheduler.agent.__main__:main"


def main(argv: list[str] | None = None) -> int:
    """Build the file; 0 when it is there, 1 with a sentence when it is not."""
    parser = argparse.ArgumentParser(description="Pack the agent into one file.")
    parser.add_argument("--output", type=Path, default=ROOT / "trainyard-agent.pyz")
    output = parser.parse_args(argv).output.absolute()
    try:
        with tempfile.TemporaryDirectory(prefix="trainyard-agent-") as folder:
            copy_own(Path(folder))
            for name in sorted(with_needs(LIBRARIES)):
                copy_library(name, Path(folder))
            pack(Path(folder), output)
    except PackageNotFoundError as missing:
        print(f"{missing.name} is not installed here; run `make setup` first", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as failed:
        print(failed.stderr.decode("utf-8", "replace"), file=sys.stderr)
        return 1
    print(f"{output} ({output.stat().st_size // 1024} KiB)")
    return 0


def copy_own(folder: Path) -> None:
    """Our own source, without caches."""
    for name in OWN:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target)


def with_needs(names: tuple[str, ...]) -> set[str]:
    """These distributions and all they need here; raises PackageNotFoundError."""
    found: set[str] = set()
    open_ends = list(names)
    while open_ends:
        name = open_ends.pop()
        if name in found:
            continue
        found.add(name)
        for text in distribution(name).requires or []:
            need = Requirement(text)
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                open_ends.append(need.name)
    return found


def copy_library(name: str, folder: Path) -> None:
    """One installed distribution's files, without caches and without commands."""
    parts = distribution(name)
    for file in parts.files or []:
        if ".." in file.parts or "__pycache__" in file.parts:
            continue
        target = folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(str(parts.locate_file(file)), target)


def pack(folder: Path, output: Path) -> None:
    """Make the folder one executable file; the same content gives the same bytes."""
    command = [
        *(sys.executable, "-m", "shiv.cli", "--reproducible", "--compressed"),
        *("--site-packages", str(folder), "--entry-point", ENTRY),
        *("--python", "/usr/bin/env python3", "--output-file", str(output)),
    ]
    subprocess.run(command, check=True, capture_output=True)


if __name__ == "__main__":
    sys.exit(main())
