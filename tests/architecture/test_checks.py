"""The runner behind the Makefile: what is tried once more, and what is not."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.longest_first import LONGEST, TESTS
from tests.pages.conftest import ON_BOTH

ROOT = Path(__file__).resolve().parents[2]
UNSTEADY = """
from pathlib import Path
def test_twice():
    mark = Path(__file__).with_suffix(".mark")
    seen = mark.exists()
    mark.touch()
    assert seen
def test_steady():
    Path(__file__).with_suffix(".runs").open("a").write("x")
"""


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    # None of them needs a plugin, and ours take seconds to load.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    spec = importlib.util.spec_from_file_location("checks", ROOT / "deploy" / "checks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "checks", module)
    spec.loader.exec_module(module)
    return module


def run(checks: ModuleType, folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    (folder / "test_it.py").write_text(text)
    monkeypatch.setattr("deploy.reporting.ROOT", folder)
    report = checks.Report(words=[])
    report.run_processes("stage", *checks.pytest("-q", "test_it.py"))
    return report


def test_an_unsteady_test_is_tried_once_more_and_named(
    checks: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = run(checks, tmp_path, UNSTEADY, monkeypatch)
    [(name, passed, _)] = report.stages
    assert (name, passed) == ("stage", True)
    checks.summarise(report, {}, 1.0)
    assert "unsteady" in (said := capsys.readouterr().out) and "test_it.py::test_twice" in said
    assert (tmp_path / "test_it.runs").read_text() == "x", "what passed is not run again"


def test_a_broken_test_fails_its_stage(
    checks: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = run(checks, tmp_path, "def test_no():\n    assert 0\n", monkeypatch)
    assert [passed for _, passed, _ in report.stages] == [False]
    assert report.unsteady == []


def test_the_closing_table_says_what_failed_and_where(
    checks: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Of a run on another machine often nothing but the end of its log is to be had."""
    (tmp_path / "test_it.py").write_text("def test_no():\n    assert 1 == 2, 'so it is'\n")
    monkeypatch.setattr("deploy.reporting.ROOT", tmp_path)
    monkeypatch.setenv("PYTEST_PLUGINS", "tests.omissions")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    stage = ("stage", *checks.pytest("-q", "test_it.py"))
    monkeypatch.setitem(checks.WAYS, "pure", (lambda report: report.run(*stage),))
    monkeypatch.setattr(sys, "argv", ["checks.py", "pure"])
    assert checks.main() == 1
    end = capfd.readouterr().out.split("=== summary")[1]
    assert "failed:\n  test_it.py::test_no: " in end
    assert "test_it.py:2: AssertionError: so it is" in end


def test_what_a_test_tells_stands_in_the_closing_table(
    checks: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Figures that are no failure: pytest shows no output of a test that passed."""
    test = "def test_it(record_property):\n    record_property('told', 'recall 0.9\\nunknown 3')\n"
    (tmp_path / "test_it.py").write_text(test)
    monkeypatch.setattr("deploy.reporting.ROOT", tmp_path)
    monkeypatch.setenv("PYTEST_PLUGINS", "tests.omissions")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    stage = ("stage", *checks.pytest("-q", "test_it.py"))
    monkeypatch.setitem(checks.WAYS, "pure", (lambda report: report.run(*stage),))
    monkeypatch.setattr(sys, "argv", ["checks.py", "pure"])
    assert checks.main() == 0
    end = capfd.readouterr().out.split("=== summary")[1]
    assert "told by tests:\n  recall 0.9\n  unknown 3\n" in end


def test_many_failures_are_no_accident(
    checks: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    each = "import pytest\n@pytest.mark.parametrize('n', range(4))\ndef test_no(n):\n    assert 0\n"
    report = run(checks, tmp_path, each, monkeypatch)
    assert [passed for _, passed, _ in report.stages] == [False]
    assert "once more" not in capfd.readouterr().out


def test_a_stage_beside_another_is_counted_and_told_of_afterwards(
    checks: ModuleType, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    report = checks.Report(words=[])
    with report.beside(lambda report: report.run("first", "sh", "-c", "echo late; exit 3")):
        report.run("second", "echo", "early")
    assert {name: passed for name, passed, _ in report.stages} == {"first": False, "second": True}
    said = capfd.readouterr().out
    assert said.index("early") < said.index("=== first") < said.index("late")


def test_what_takes_minutes_is_in_no_stage_of_all_tests(
    checks: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten thousand histories of each property once ran with every change, unnoticed."""
    called: list[tuple[str, ...]] = []
    monkeypatch.setattr(
        checks.Report, "_call", lambda _, name, command, environment: called.append(command)
    )
    monkeypatch.setattr("deploy.reporting.failures", lambda cache: [])
    monkeypatch.setattr(checks.shutil, "which", lambda name: name)
    monkeypatch.setenv("TRAINYARD_TEST_DATABASE_URL", "postgres:///given")
    processes = (checks.outages, checks.browser)
    for stage in (checks.pure, checks.agent, checks.sqlite, checks.postgres, *processes):
        assert stage in checks.WAYS["all"]
        stage(checks.Report(words=[]))
    assert len(called) == 8
    for command in called:
        assert "not long" in command[command.index("-m", 3) + 1], command


def test_the_suite_has_the_database_of_its_stage(
    checks: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the shell says that began it: tests write, and empty tables."""
    told: list[dict[str, str]] = []
    monkeypatch.setattr(
        checks.Report, "_call", lambda _, name, command, environment: told.append(environment)
    )
    monkeypatch.setattr("deploy.reporting.failures", lambda cache: [])
    monkeypatch.setenv("DATABASE_URL", "postgres:///of-the-shell")
    checks.sqlite(checks.Report(words=[]))
    monkeypatch.setenv("TRAINYARD_TEST_DATABASE_URL", "postgres:///given")
    checks.postgres(checks.Report(words=[]))
    assert [each["DATABASE_URL"] for each in told] == ["", "", *["postgres:///given"] * 2]
    assert all(each["DATABASE_URL_FILE"] == "" for each in told)


def test_the_suite_runs_as_on_another_day(
    checks: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Also what a test's module asks for while it is read."""
    test = (
        "from datetime import UTC, datetime\nREAD = datetime.now(UTC)\n"
        "def test_it():\n    assert READ.isoformat().startswith('2028-02-29T23:55:')\n"
    )
    (tmp_path / "test_it.py").write_text(test)
    monkeypatch.setattr("deploy.reporting.ROOT", tmp_path)
    monkeypatch.setenv("PYTEST_PLUGINS", "tests.later")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    report = checks.Report(words=[])
    command = checks.pytest("-q", "test_it.py")
    report.run("then", *command, TRAINYARD_TEST_NOW="2028-02-29T23:55")
    report.run("never", *command, TRAINYARD_TEST_NOW="2027-02-29")
    assert [passed for _, passed, _ in report.stages] == [True, False]
    assert "TRAINYARD_TEST_NOW is '2027-02-29'" in capfd.readouterr().err


def test_other_days_are_a_few_or_the_one_that_is_named(
    checks: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[tuple[str, tuple[str, ...]]] = []
    monkeypatch.setattr(
        checks.Report,
        "_call",
        lambda _, name, command, environment: called.append(
            (environment["TRAINYARD_TEST_NOW"], command)
        ),
    )
    monkeypatch.delenv("TRAINYARD_TEST_NOW", raising=False)
    checks.later(checks.Report(words=[]))
    assert [moment for moment, _ in called] == list(checks.MOMENTS)
    assert all("tests/ledger" in command for _, command in called)
    monkeypatch.setenv("TRAINYARD_TEST_NOW", "2030-06-01")
    checks.later(checks.Report(words=["tests/spec"]))
    moment, command = called[-1]
    assert moment == "2030-06-01"
    assert "tests/spec" in command and "tests/ledger" not in command
    assert checks.WAYS["later"] == (checks.later,)


def test_pages_that_are_asked_on_both_databases_are_there() -> None:
    assert [name for name in ON_BOTH if not (TESTS / "pages" / f"{name}.py").is_file()] == []


def test_files_that_come_first_are_there() -> None:
    assert [name for name in LONGEST if not (TESTS / name).is_file()] == []
    assert len(set(LONGEST)) == len(LONGEST)
