"""Runs the checks behind the Makefile and ends with what passed, failed and was left out.

Needs only the standard library until a stage starts; every stage is a command of its own.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Started as a file, its own folder is on the path and the one above is not.
sys.path.insert(0, str(ROOT))

from deploy.reporting import Report, pytest, summarise, tool  # noqa: E402

PURE = ("bench", "engine", "ledger", "simulator", "spec", "torture", "triage", "wire")
# Stages of their own run these.
ELSEWHERE = (*PURE, "agent", "gpu", "architecture", "outages", "flows", "browser")
QUICK = "not gpu and not long"
# What does not rest on the database, and what does not exist on the other one.
ON_SQLITE = f"{QUICK} and not postgres"
ON_POSTGRES = f"{QUICK} and not once and not torch"
# Two processes, a file whole in one of them, as its fixtures are made once; the longest files first
# (`tests/longest_first.py`), not those of the most tests. A test that hangs ends its process and
# is begun again in the next one, without an end if it hangs there, too: two more are enough.
TWO = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "--max-worker-restart", "2", "-q")
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
# What asks for the day or the hour within pytest's own process, where `tests/later.py` can move it.
DATED = (
    *("accounts", "api", "engine", "ledger", "live", "loop", "pages", "reports", "rights"),
    *("selectors", "services", "simulator", "spec", "triage", "wire"),
)
# In UTC: a leap day, a new year, the end of a month, the hour that comes twice in Europe.
MOMENTS = ("2028-02-29T23:55", "2027-01-01T00:10", "2027-04-30T23:30", "2027-10-31T00:50")


def lint(report: Report) -> None:
    """Style and likely mistakes."""
    report.run("ruff", tool("ruff"), "check", ".")
    report.run("format", tool("ruff"), "format", "--check", ".")


def names_paths(report: Report) -> bool:
    """Whether somebody wants these tests alone."""
    return any(word.startswith("tests") for word in report.words)


def of(report: Report, *folders: str) -> tuple[str, ...]:
    """The folders of a stage; paths among the words take their place."""
    return () if names_paths(report) else folders


def types(report: Report) -> None:
    """mypy with Django's stubs."""
    report.run("mypy", tool("mypy"))


def arch(report: Report) -> None:
    """Import contracts, then what an import graph cannot see."""
    report.run("imports", tool("lint-imports"), "--no-logo")
    report.run("architecture", *pytest(*of(report, "tests/architecture"), "-q", *report.words))


def static(report: Report) -> None:
    """What reads the code without running it; mypy uses one core, so the rest goes beside it."""
    with report.beside(types):
        lint(report)
        arch(report)


def pure(report: Report) -> None:
    """No database, no server: a minute or two."""
    there = [f"tests/{name}" for name in PURE if (ROOT / "tests" / name).is_dir()]
    report.run("pure tests", *pytest(*of(report, *there), *TWO, "-m", QUICK, *report.words))


def agent(report: Report) -> None:
    """Nodes and what they start; no database. They wait for processes most of the time: by four."""
    four = ("-n", "4", *TWO[2:])
    words = pytest(*of(report, "tests/agent"), *four, "-m", QUICK, *report.words)
    report.run_processes("agent", *words)


def suite(report: Report, database: str, url: str = "") -> None:
    """Everything that has no stage of its own, on one database; then the flows."""
    # Empty: the file that each test makes, whatever this shell is told.
    environment = {"DATABASE_URL": url, "DATABASE_URL_FILE": ""}
    ignored = [f"--ignore=tests/{name}" for name in ELSEWHERE]
    words = ("-m", ON_POSTGRES if url else ON_SQLITE, *report.words)
    told = pytest(*of(report, "tests", *ignored), *TWO, *words)
    report.run_processes(f"tests on {database}", *told, **environment)
    if names_paths(report):
        return
    report.run_processes(
        f"flows on {database}", *pytest("tests/flows", *TWO, *words), **environment
    )


def sqlite(report: Report) -> None:
    """The suite on the embedded default's database."""
    suite(report, "SQLite")


def postgres(report: Report) -> None:
    """The suite again on a throw-away PostgreSQL, or on the one that
    TRAINYARD_TEST_DATABASE_URL names."""
    given = os.environ.get("TRAINYARD_TEST_DATABASE_URL")
    if given:
        suite(report, "PostgreSQL", given)
        return
    from portal.embedded.postgres import Cluster, NoPostgres

    with ExitStack() as kept:
        try:
            cluster = kept.enter_context(Cluster())
        except NoPostgres as problem:
            report.leave_out("the suite on PostgreSQL", str(problem))
            return
        suite(report, "PostgreSQL", cluster.url())


def outages(report: Report) -> None:
    """Kills and crowds, as the benchmarks make them; with databases of their own, so once."""
    words = pytest(*of(report, "tests/outages"), *TWO, "-m", QUICK, *report.words)
    report.run_processes("outages", *words)


def browser(report: Report) -> None:
    """The newcomer's path and every page, in headless Chromium."""
    if not any(shutil.which(name) for name in CHROMIUM):
        report.leave_out("the browser tests", "sudo apt-get install chromium")
        return
    words = pytest(*of(report, "tests/browser"), *TWO, "-m", QUICK, *report.words)
    report.run_processes("browser", *words)


def smoke(report: Report) -> None:
    """The main job, once, for real."""
    report.run("smoke", sys.executable, "manage.py", "smoke")


def long(report: Report) -> None:
    """Tests that take minutes."""
    report.run("long tests", *pytest("tests", "-q", "-m", "long", *report.words))
    # Nobody looks into the browser's folder by chance: it needs a process of its own.
    report.run("long browser tests", *pytest("tests/browser", "-q", "-m", "long", *report.words))
    folders = [f"tests/{name}" for name in (*PURE, "agent", "services", "protocol")]
    new = {"TRAINYARD_TESTS_NEW_EXAMPLES": "1", "PROTOCOL_EXAMPLES": "200"}
    words = pytest(*folders, "-q", "-m", QUICK, *report.words)
    report.run("properties with new examples", *words, **new)
    later(report)


def later(report: Report) -> None:
    """The suite on days to come: at each of MOMENTS, or at the one TRAINYARD_TEST_NOW names.

    Left out is what drives processes, whose clocks stay true: agents, flows, outages, the browser,
    the command line, protocol, benchmarks.
    """
    given = os.environ.get("TRAINYARD_TEST_NOW")
    folders = of(report, *(f"tests/{name}" for name in DATED))
    for moment in (given,) if given else MOMENTS:
        words = pytest(*folders, *TWO, "-m", ON_SQLITE, *report.words)
        report.run(f"tests as at {moment}", *words, TRAINYARD_TEST_NOW=moment)


def gpu(report: Report) -> None:
    """Tests that need an NVIDIA device."""
    report.run("GPU tests", *pytest("tests/gpu", "-q", "-m", "gpu", *report.words))


def gallery(report: Report) -> None:
    """Pictures of every page into .gallery."""
    report.run("gallery", sys.executable, "-m", "tests.browser.gallery", *report.words)


def weaknesses(report: Report) -> None:
    """Known weaknesses of the locked packages; left out where the service does not answer."""
    report.run("weaknesses", sys.executable, "deploy/weaknesses.py", "--or-leave-out")


def others(report: Report) -> None:
    """What this run never does, and who does it."""
    report.left_out.append(("tests that take minutes", "make test-long"))
    if not Path("/dev/nvidiactl").exists():
        report.left_out.append(("tests on a real GPU", "make test-gpu (where there is one)"))


Stage = Callable[[Report], None]
WAYS: dict[str, tuple[Stage, ...]] = {
    "all": (static, pure, agent, sqlite, postgres, outages, browser, smoke, weaknesses, others),
    "check": (static, pure, agent, sqlite, outages, smoke),
}
_ALONE = (lint, types, arch, pure, agent, sqlite, postgres, outages, browser)
_ASIDE = (long, later, gpu, gallery, weaknesses)
WAYS |= {stage.__name__: (stage,) for stage in (*_ALONE, *_ASIDE)}


def main() -> int:
    """Run the stages of one way; exit 0 only when all of them passed."""
    if len(sys.argv) < 2 or sys.argv[1] not in WAYS:
        print(f"usage: checks.py {'|'.join(WAYS)} [words for pytest]", file=sys.stderr)
        return 2
    # Started in the background by a shell, SIGINT is ignored, and so it would be by every child.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    report = Report(words=sys.argv[2:])
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="trainyard-checks-") as folder:
        report.notes = Path(folder) / "notes"
        report.notes.touch()
        for stage in WAYS[sys.argv[1]]:
            stage(report)
        noted = [line.split("\t", 2) for line in report.notes.read_text("utf-8").splitlines()]
    report.failed = [(name, words) for what, name, words in noted if what == "failed"]
    report.told = [words for what, _, words in noted if what == "told"]
    skipped = {name: words for what, name, words in noted if what == "left out"}
    summarise(report, skipped, time.monotonic() - began)
    return 0 if all(passed for _, passed, _ in report.stages) else 1


if __name__ == "__main__":
    sys.exit(main())
