"""The house as the tests see it: its files, and the rules as functions that list breaches.

A rule takes a path (relative to the root) and a text, so that a planted breach can be shown to it.
"""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("accounts", "scheduler", "portal")
MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 50
MAX_FILES = 14
FORBIDDEN_NAMES = frozenset(
    {"utils", "util", "helpers", "helper", "common", "misc", "manager", "handlers", "base"}
)
# library: the only files and folders that may import it
DOORS = {
    "pynvml": ("scheduler/agent/gpus/nvml.py",),
    "guardian": ("accounts/granting.py", "accounts/models/grants.py"),
    "re2": ("portal/terminal/search.py", "scheduler/spec/retrying/patterns.py"),
    "plotly": ("portal/reports/charts.py",),
    "channels": ("scheduler/events.py", "scheduler/hearing.py", "portal/live/", "portal/asgi.py"),
    "celery": ("scheduler/tasks.py", "portal/celery.py", "scheduler/events.py"),
    "supervisor": ("portal/embedded/supervisor.py",),
}
# `portal.apps` loads the Celery app; the module is ours.
STATE_WRITERS = ("scheduler/services/transitions.py", "scheduler/services/holding/moves.py")
# A workplace's own folders and a registry's hosts have no place in the product. In two halves, so
# that this file does not name them either.
_PARTS = (
    ("/work", "/main"),
    ("/work", "/shared"),
    ("/work", "/.library"),
    ("../", "shared"),
    ("py", "pi.org"),
    ("registry.", "npmjs"),
    ("files.python", "hosted"),
    ("deb.", "debian.org"),
)
FOREIGN_WORDS = tuple(left + right for left, right in _PARTS)
# Here Django looks for a module `base`.
NAMED_BY_DJANGO = {Path("portal/settings"), Path("portal/embedded/sqlite")}


@cache
def tracked() -> tuple[Path, ...]:
    """Files of the repository, those not yet added included, as paths relative to the root."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    paths = (Path(name) for name in listed.stdout.split("\0") if name)
    return tuple(sorted(path for path in set(paths) if (ROOT / path).is_file()))


def python_files(*below: str) -> list[Path]:
    """Python files of these folders (all when none is named), migrations left out."""
    return [
        path
        for path in tracked()
        if path.suffix == ".py"
        and "migrations" not in path.parts
        and (not below or path.parts[0] in below)
    ]


def text_of(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def sizes(path: Path, text: str) -> Iterator[str]:
    """Files and functions that have grown too large."""
    lines = text.count("\n")
    if lines > MAX_FILE_LINES:
        yield f"{path}: {lines} lines; split it by noun or step at {MAX_FILE_LINES}"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                yield f"{path}:{node.lineno}: {node.name} has {length} lines"


def doors(path: Path, text: str) -> Iterator[str]:
    """Libraries imported elsewhere than at their one door."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        else:
            continue
        for name in names:
            library = name.split(".")[0]
            allowed = DOORS.get(library, (str(path),))
            if not str(path).startswith(allowed):
                yield f"{path}:{node.lineno}: {library} has its door in {', '.join(allowed)}"


def moves(path: Path, text: str) -> Iterator[str]:
    """State that is assigned instead of moved."""
    if str(path) in STATE_WRITERS:
        return
    for node in ast.walk(ast.parse(text)):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        if any(_is_foreign_state(target) for target in targets):
            line = getattr(node, "lineno", 0)
            yield f"{path}:{line}: .state is assigned; move it through {STATE_WRITERS[0]}"
        if isinstance(node, ast.Call) and _updates_state(node):
            yield f"{path}:{node.lineno}: state is updated; move it through {STATE_WRITERS[0]}"


def _is_foreign_state(target: ast.expr) -> bool:
    """`job.state`, but not `self.state`: an object may keep its own."""
    if not isinstance(target, ast.Attribute) or target.attr != "state":
        return False
    return not (isinstance(target.value, ast.Name) and target.value.id == "self")


def _updates_state(call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr == "update":
        # `dict.update(state=…)` reads the same to a parser and is refused with it.
        return any(keyword.arg == "state" for keyword in call.keywords)
    if call.func.attr == "bulk_update":
        words = [node.value for node in ast.walk(call) if isinstance(node, ast.Constant)]
        return "state" in words
    return False


def rows(path: Path, text: str) -> Iterator[str]:
    """Database rows touched in `portal`, past selectors and services."""
    if path.parts[0] != "portal":
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and node.attr in ("objects", "_default_manager"):
            yield f"{path}:{node.lineno}: .{node.attr}; read by a selector, write by a service"


def whole_answers(path: Path, text: str) -> Iterator[str]:
    """Answers that an asynchronous server would hold in memory whole."""
    if path.parts[0] != "portal" or str(path) == "portal/reports/streams.py":
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name) and node.id in ("StreamingHttpResponse", "FileResponse"):
            yield f"{path}:{node.lineno}: {node.id}; send a StreamedFile"


def names(path: Path) -> Iterator[str]:
    """File names that say nothing."""
    if path.stem in FORBIDDEN_NAMES and path.parent not in NAMED_BY_DJANGO:
        yield f"{path}: name it after what it holds"


def foreign_words(path: Path, text: str) -> Iterator[str]:
    """Words of a workplace or a package registry."""
    for word in FOREIGN_WORDS:
        if word in text:
            yield f"{path}: mentions {word}"
