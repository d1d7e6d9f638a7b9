"""Every file obeys; and each rule is shown a breach, so that silence means something."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.architecture import sources
from tests.architecture.sources import ROOMS, ROOT, python_files, text_of, tracked

# One page a decision, one picture a page: they are read by name, not browsed.
_LONG_FOLDERS = ("deploy/decisions", "static/img", "static/vendor")
# One file per noun, part or component; at the cap the next one earns a subfolder.
_CROWDED_FOLDERS = {"portal/pages": 24, "scheduler/services": 20, "templates/components": 26}


def breaches(rule, paths) -> list[str]:
    return [breach for path in paths for breach in rule(path, text_of(path))]


def test_files_and_functions_stay_small():
    assert not breaches(sources.sizes, python_files())


def test_templates_styles_and_scripts_stay_small():
    long = [
        f"{path}: {text_of(path).count(chr(10))} lines"
        for path in tracked()
        if path.suffix in (".html", ".css", ".js", ".sh")
        and "vendor" not in path.parts
        and text_of(path).count("\n") > sources.MAX_FILE_LINES
    ]
    assert not long


def test_folders_hold_about_a_dozen_files():
    counts = Counter(
        str(path.parent)
        for path in tracked()
        if path.parts[0] in (*ROOMS, "deploy", "templates", "static")
        and path.name != "__init__.py"
        and "migrations" not in path.parts
    )
    crowded = {
        folder: count
        for folder, count in counts.items()
        if count > _CROWDED_FOLDERS.get(folder, sources.MAX_FILES) and folder not in _LONG_FOLDERS
    }
    assert not crowded


def test_every_library_has_one_door():
    assert not breaches(sources.doors, python_files(*ROOMS))


def test_state_is_moved_not_assigned():
    assert not breaches(sources.moves, python_files(*ROOMS))


def test_the_portal_touches_no_rows():
    assert not breaches(sources.rows, python_files("portal"))


def test_what_is_sent_block_by_block_lies_in_no_memory_whole():
    assert not breaches(sources.whole_answers, python_files("portal"))


def test_file_names_say_what_is_inside():
    assert not [breach for path in python_files() for breach in sources.names(path)]


def test_nothing_of_a_workplace_is_left_in_the_product():
    found = []
    for path in tracked():
        if path.suffix in (".png", ".ico", ".woff2", ".gz"):
            continue
        found += sources.foreign_words(path, (ROOT / path).read_text("utf-8", "replace"))
    assert not found


@pytest.mark.parametrize("room", [*ROOMS, "templates", "tests", "deploy", "scheduler/agent"])
def test_every_room_has_a_readme(room):
    assert (ROOT / room / "README.md").is_file()


def test_the_scheduler_and_the_portal_import_without_django():
    """The agent and the command line live in these packages and know no Django."""
    assert not text_of(Path("scheduler/__init__.py")).strip()
    assert not text_of(Path("portal/__init__.py")).strip()


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (sources.sizes, "portal/pages/jobs.py", "x = 1\n" * 301),
        (sources.sizes, "portal/pages/jobs.py", "def f():\n" + "    x = 1\n" * 51),
        (sources.doors, "portal/pages/jobs.py", "import plotly\n"),
        (sources.doors, "scheduler/services/jobs.py", "from guardian.shortcuts import assign\n"),
        (sources.doors, "scheduler/agent/daemon.py", "def f():\n    import pynvml\n"),
        (sources.doors, "portal/api/jobs.py", "from celery import shared_task\n"),
        (sources.moves, "scheduler/loop/cycle.py", "job.state = 'running'\n"),
        (sources.moves, "scheduler/loop/cycle.py", "jobs.filter(pk=1).update(state='x')\n"),
        (sources.moves, "scheduler/loop/cycle.py", "Job.objects.bulk_update(jobs, ['state'])\n"),
        (sources.rows, "portal/api/jobs.py", "Job.objects.all()\n"),
        (sources.whole_answers, "portal/pages/x.py", "StreamingHttpResponse(read())\n"),
        (sources.foreign_words, "README.md", sources.FOREIGN_WORDS[0]),
    ],
)
def test_a_planted_breach_is_caught(rule, path, text):
    assert list(rule(Path(path), text))


def test_a_planted_name_is_caught():
    assert list(sources.names(Path("scheduler/services/utils.py")))
    assert not list(sources.names(Path("portal/settings/base.py")))
