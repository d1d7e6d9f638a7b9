"""Asks PyPI's advisory service for known weaknesses of the locked packages, by pip-audit.

Ends with 0 if there are none, 1 if there are, 2 if the service did not answer for all packages;
with `--or-leave-out` the latter is noted as left out and ends with 0 (decision 163).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TOOL = "pip-audit==2.10.1"
COMMAND = (
    *(str(Path(sys.executable).parent / "uv"), "tool", "run", "--from", TOOL, "pip-audit"),
    *("--requirement", "requirements.lock", "--require-hashes", "--disable-pip"),
    *("--progress-spinner", "off", "--format", "json"),
)
NAME = "known weaknesses of the locked packages"
_PATIENCE_S = 300.0
_NAMED = 5
_MOST_LETTERS = 300


class NotAsked(Exception):
    """Nobody answered; the text says who did not."""


def ask() -> list[dict[str, Any]]:
    """What pip-audit says of each package. Raises NotAsked."""
    try:
        done = subprocess.run(
            COMMAND,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
        return list(json.loads(done.stdout)["dependencies"])
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise NotAsked(f"{TOOL} does not run: {problem}"[:_MOST_LETTERS]) from None
    except (ValueError, KeyError):
        words = " ".join(done.stderr.split())[-_MOST_LETTERS:]
        raise NotAsked(f"{TOOL} could not ask: {words}") from None


def judge(packages: list[dict[str, Any]]) -> tuple[list[str], str]:
    """A line for each weakness; and of how many packages nothing is known, if there are any."""
    found = [
        f"{package['name']} {package['version']}: {one['id']}, mended in "
        f"{', '.join(one.get('fix_versions', ())) or 'no version yet'}"
        for package in packages
        for one in package.get("vulns", ())
    ]
    unknown = [package["name"] for package in packages if "skip_reason" in package]
    if not unknown:
        return found, ""
    names = ", ".join(unknown[:_NAMED]) + (", ..." if len(unknown) > _NAMED else "")
    count = f"{len(unknown)} of {len(packages)} packages"
    return found, f"the advisory service does not answer for {count} ({names})"


def main(words: list[str]) -> int:
    """Say what was found and what could not be asked."""
    try:
        packages = ask()
        found, unanswered = judge(packages)
    except NotAsked as problem:
        packages, found, unanswered = [], [], str(problem)
    for line in found:
        print(line)
    if not found and not unanswered:
        print(f"no known weakness in {len(packages)} packages")
    if unanswered:
        print(f"left out: {unanswered}")
        if "--or-leave-out" in words:
            _note(unanswered)
            return 1 if found else 0
    return 1 if found else 2 if unanswered else 0


def _note(reason: str) -> None:
    """For the closing table of `checks.py`."""
    if path := os.environ.get("TRAINYARD_TEST_NOTES"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"left out\t{NAME}\t{reason}; to add it: make audit, where PyPI answers\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
