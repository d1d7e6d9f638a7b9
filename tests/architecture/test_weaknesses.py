"""The stage that asks for known weaknesses: what it makes of each answer, and of none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOUND = {"name": "one", "version": "1.0", "vulns": []}
WEAK = {
    "name": "two",
    "version": "2.0",
    "vulns": [{"id": "PYSEC-2026-7", "fix_versions": ["2.1"], "aliases": [], "description": "x"}],
}
UNKNOWN = {"name": "three", "skip_reason": "Dependency not found on PyPI"}


def stage(folder: Path, answer: str, *words: str) -> tuple[int, str, str]:
    """Exit code, output and note of the stage beside a program that answers as pip-audit would."""
    for name in ("python", "uv"):
        (folder / name).write_text(f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\n")
        (folder / name).chmod(0o755)
    script = "import sys, runpy; sys.executable = sys.argv.pop(1); sys.argv.pop(0);"
    script += "runpy.run_path(sys.argv[0], run_name='__main__')"
    own = (str(folder / "python"), str(ROOT / "deploy" / "weaknesses.py"))
    done = subprocess.run(
        [sys.executable, "-c", script, *own, *words],
        env={"TRAINYARD_TEST_NOTES": str(folder / "notes"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert not done.stderr, done.stderr
    notes = folder / "notes"
    return done.returncode, done.stdout, notes.read_text() if notes.exists() else ""


def told(*packages: object) -> str:
    return json.dumps({"dependencies": packages, "fixes": []})


@pytest.mark.parametrize("words", [(), ("--or-leave-out",)])
def test_no_weakness_passes_and_one_fails_with_its_name(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    assert stage(tmp_path, told(SOUND), *words) == (0, "no known weakness in 1 packages\n", "")
    code, said, _ = stage(tmp_path, told(SOUND, WEAK, UNKNOWN), *words)
    assert code == 1 and "two 2.0: PYSEC-2026-7, mended in 2.1" in said


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (told(SOUND, UNKNOWN), "does not answer for 1 of 2 packages (three)"),
        ("", "could not ask"),
        ("no route", "could not ask"),
    ],
)
def test_who_gets_no_answer_is_told_so_and_never_that_all_is_well(
    tmp_path: Path, answer: str, reason: str
) -> None:
    code, said, note = stage(tmp_path, answer)
    assert code == 2 and reason in said and "no known weakness" not in said and not note
    code, said, note = stage(tmp_path, answer, "--or-leave-out")
    assert code == 0 and reason in said
    kind, name, words = note.split("\t")
    assert kind == "left out" and "weaknesses" in name and reason in words
