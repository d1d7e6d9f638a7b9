"""Who calls whom among the services, read from their sources: names, imports, attribute calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.architecture.sources import python_files, text_of

FOLDERS = ("accounts/services", "scheduler/services")
# What changes rows; `move_…` and `post_entries` end in these.
WRITES = frozenset(
    {"bulk_create", "bulk_update", "create", "delete", "get_or_create", "save", "update"}
    | {"update_or_create"}
)


@dataclass
class Function:
    """A top-level function: what it calls by full name, and whether it writes rows itself."""

    name: str
    has_actor: bool
    writes: bool = False
    calls: set[str] = field(default_factory=set)


def functions() -> dict[str, Function]:
    """Every top-level function of the services, by `package.module.name`."""
    found: dict[str, Function] = {}
    aliases: dict[str, str] = {}
    for path in service_files():
        module = module_of(path)
        tree = ast.parse(text_of(path))
        names = dict(imported(tree))
        aliases |= {f"{module}.{short}": full for short, full in names.items()}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                names.setdefault(node.name, f"{module}.{node.name}")
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                found[f"{module}.{node.name}"] = read(node, f"{module}.{node.name}", names)
    for function in found.values():
        function.calls = {resolved(call, aliases) for call in function.calls}
    return found


def service_files() -> list[Path]:
    return [path for path in python_files() if str(path).startswith(FOLDERS)]


def module_of(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for one in node.names:
                yield one.asname or one.name, f"{node.module}.{one.name}"


def resolved(call: str, aliases: dict[str, str]) -> str:
    while call in aliases:
        call = aliases[call]
    return call


def read(node: ast.FunctionDef, name: str, names: dict[str, str]) -> Function:
    arguments = [*node.args.args, *node.args.kwonlyargs]
    made = Function(name, any(one.arg == "actor" for one in arguments))
    for inner in ast.walk(node):
        if not isinstance(inner, ast.Call):
            continue
        if isinstance(inner.func, ast.Name):
            made.calls.add(names.get(inner.func.id, inner.func.id))
        elif isinstance(inner.func, ast.Attribute):
            made.writes |= inner.func.attr in WRITES and not is_plain_set(inner)
            if isinstance(inner.func.value, ast.Name):
                base = names.get(inner.func.value.id, inner.func.value.id)
                made.calls.add(f"{base}.{inner.func.attr}")
    return made


def is_plain_set(call: ast.Call) -> bool:
    """`seen.update(other)` of a set or dictionary: rows are updated by keyword."""
    assert isinstance(call.func, ast.Attribute)
    return call.func.attr == "update" and bool(call.args)


def reaches(start: str, every: dict[str, Function]) -> Iterator[Function | str]:
    """All that a function may come to call; names beyond the services as text."""
    seen, left = {start}, [start]
    while left:
        name = left.pop()
        function = every.get(name)
        if function is None:
            yield name
            continue
        yield function
        for call in function.calls - seen:
            seen.add(call)
            left.append(call)
