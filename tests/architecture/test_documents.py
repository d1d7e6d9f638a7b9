"""Documents do not lie: paths exist, variables are read, locks carry no address."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import typer
from django.core.management import get_commands
from django.urls import resolve

from portal.cli.__main__ import app
from tests.architecture.sources import ROOT, text_of, tracked

_READS = re.compile(
    r"""env\.(?:text|flag|whole|words|choice|log_level|networks|ports)\(\s*["']([A-Z_]+)["']"""
)
_ENVIRON = re.compile(r"""os\.environ(?:\.get\(|\[)["']([A-Z_]+)["']""")
_CODE = re.compile(r"`([^`\s]+)`")
_LINK = re.compile(r"\]\(([^)#\s]+)")
# Read from the environment by other programs of the house or by the system, not by an operator.
_NOT_FOR_OPERATORS = {
    "TRAINYARD_TEST_WORKER",
    "PYTEST_XDIST_WORKER",
    "XDG_RUNTIME_DIR",
    "DJANGO_SETTINGS_MODULE",
}
_TOP = {path.parts[0] for path in tracked()}
READMES = [path for path in tracked() if path.suffix == ".md" and "vendor" not in path.parts]


def settings_variables() -> set[str]:
    found = set()
    for path in tracked():
        if path.parts[:2] == ("portal", "settings") and path.suffix == ".py":
            text = text_of(path)
            found |= set(_READS.findall(text)) | set(_ENVIRON.findall(text))
            for names in re.findall(r"for _name in \(([^)]*)\)", text):
                found |= set(re.findall(r'"([A-Z_]+)"', names))
    return found - _NOT_FOR_OPERATORS


def described_variables() -> set[str]:
    return set(re.findall(r"^#?\s?([A-Z_]+)=", text_of(Path("deploy/env.example")), re.M))


def test_every_variable_is_described():
    assert settings_variables() - described_variables() == set()


def test_every_described_variable_is_read():
    assert described_variables() - settings_variables() == set()


@pytest.mark.parametrize("readme", READMES, ids=str)
def test_paths_written_in_documents_exist(readme):
    text = text_of(readme)
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    missing = []
    for word in _CODE.findall(text):
        path = word.rstrip("/").split("::")[0]
        is_path = path.split("/")[0] in _TOP and ("/" in path or "." in path)
        if is_path and not set("*<{…=") & set(path) and not (ROOT / path).exists():
            missing.append(word)
    for link in _LINK.findall(text):
        if "://" not in link and not link.startswith("mailto:"):
            target = ROOT / readme.parent / link
            if not target.exists():
                missing.append(link)
    assert not missing


def test_the_tests_that_hold_what_is_promised_are_there():
    text = text_of(Path("tests/README.md")).partition("## What execution promises")[2]
    found = re.findall(r"`((?:\w+/)+test_\w+\.py)(?:::(test_\w+))?`", text)
    named = [(path.removeprefix("tests/"), name) for path, name in found]
    missing = [
        (path, name)
        for path, name in named
        if not (ROOT / "tests" / path).exists()
        or (name and f"def {name}(" not in text_of(Path("tests") / path))
    ]
    assert len(named) > 80 and missing == []


@pytest.mark.parametrize("text", ["README.md", "templates/help/help.html"])
def test_who_writes_a_program_is_told_what_is_not_promised_and_what_helps(text):
    set_for_jobs = text_of(Path("scheduler/agent/setup/environment.py"))
    for name in ("TRAINYARD_JOB_ID", "TRAINYARD_ATTEMPT", "TRAINYARD_FENCE"):
        assert f'"{name}"' in set_for_jobs and name in text_of(Path(text)), name


_RUNBOOKS = Path("deploy/RUNBOOKS.md")


def _group(command: typer.core.TyperCommand | typer.core.TyperGroup) -> set[str]:
    return set(getattr(command, "commands", {}))


def test_runbooks_name_only_commands_that_exist():
    codes = re.findall(r"`([^`]+)`", text_of(_RUNBOOKS))
    top = typer.main.get_command(app)
    known = set(get_commands())
    asked = [code.split() for code in codes if code.split()[0] in ("trainyard", "manage.sh")]
    assert len(asked) > 25
    for program, *words in asked:
        if program == "manage.sh":
            assert not words or words[0] in known, words
        elif words:
            assert words[0] in _group(top), words
            inner = _group(top.commands[words[0]])
            assert not inner or len(words) == 1 or words[1] in inner, words
            last = top.commands[words[0]]
            last = last.commands[words[1]] if inner and len(words) > 1 else last
            options = {name for one in last.params for name in one.opts}
            assert {word for word in words if word.startswith("--")} <= options, words


def test_runbooks_name_only_pages_and_figures_that_exist():
    text = text_of(_RUNBOOKS)
    pages = re.findall(r"`(?:POST )?(/[a-z/0-9]+/(?:NAME/)?)`", text)
    assert len(set(pages)) > 10
    for page in pages:
        if not page.startswith("/usr/"):
            resolve(page)
    figures = set(re.findall(r"`trainyard_(\w+)", text))
    told = text_of(Path("portal/api/health.py"))
    assert len(figures) >= 4 and all(figure in told for figure in figures)
    variables = set(re.findall(r"`(TRAINYARD_[A-Z_]+|DATABASE_URL)`", text))
    assert variables and variables <= described_variables()


def test_runbooks_are_those_that_were_asked_for_and_are_found():
    assert len(re.findall(r"^## ", text_of(_RUNBOOKS), re.M)) == 10
    assert "RUNBOOKS.md" in text_of(Path("deploy/README.md"))
    assert str(_RUNBOOKS) in text_of(Path("templates/ops/health.html"))


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_locks_carry_hashes_and_no_address(lock):
    text = text_of(Path(lock))
    assert "://" not in text
    pinned = re.findall(r"^[a-z0-9][a-z0-9._-]*(?:\[[^]]*\])?==", text, re.M)
    assert len(pinned) > 50
    assert text.count("--hash=sha256:") >= len(pinned)


def test_the_locks_agree_with_the_declared_dependencies():
    project = tomllib.loads(text_of(Path("pyproject.toml")))["project"]
    extras = project["optional-dependencies"]
    lock, dev = text_of(Path("requirements.lock")), text_of(Path("requirements-dev.lock"))
    for extra, wishes in extras.items():
        for wish in wishes:
            name = re.match(r"[A-Za-z0-9._-]+", wish)[0].lower().replace("_", "-")
            assert re.search(rf"^{re.escape(name)}(\[[^]]*\])?==", dev, re.M), name
            if extra in ("server", "postgres", "agent", "cli", "samples"):
                assert re.search(rf"^{re.escape(name)}(\[[^]]*\])?==", lock, re.M), name


def test_the_makefile_has_the_promised_targets():
    promised = (
        "setup demo up dev test test-fast test-long test-later test-gpu check fmt lint types arch "
        "smoke bench gallery agent migrations clean"
    )
    targets = set(re.findall(r"^([a-z-]+):", text_of(Path("Makefile")), re.M))
    assert set(promised.split()) <= targets
