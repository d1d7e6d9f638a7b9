"""Every value that is refused is refused by the name of its field; every kind of news is told."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from scheduler.states import NoticeKind
from tests.architecture.sources import python_files, text_of

ROOMS = ("accounts/", "scheduler/", "portal/")


def nameless(text: str) -> Iterator[int]:
    """Lines of `Invalid(…)` without a field."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Invalid":
            fields = {word.arg: word.value for word in node.keywords}
            field = fields.get("field")
            if field is None or (isinstance(field, ast.Constant) and not field.value):
                yield node.lineno


def test_every_refused_value_names_its_field():
    files = [path for path in python_files() if str(path).startswith(ROOMS)]
    found = [f"{path}:{line}" for path in files for line in nameless(text_of(path))]
    assert len(files) > 500 and not found


def test_a_nameless_one_is_found():
    assert list(nameless('raise Invalid("No.")\nraise Invalid("No.", field="")')) == [1, 2]
    assert not list(nameless('raise Invalid("No.", field=name)'))


def test_every_kind_of_news_that_is_offered_is_told():
    told = "".join(map(text_of, python_files("scheduler")))
    rules = text_of(Path("scheduler/states/notices.py"))
    kinds = [f"NoticeKind.{kind.name}" for kind in NoticeKind]
    assert not [kind for kind in kinds if told.count(kind) == rules.count(kind)]
