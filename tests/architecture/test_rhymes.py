"""URL names, views, templates and tests go together: none without the others."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from django.urls import URLPattern, URLResolver, get_resolver

from tests.architecture.sources import ROOT, text_of, tracked

TEMPLATES = [path for path in tracked() if path.parts[0] == "templates" and path.suffix == ".html"]
# allauth looks these up by its own names, the error pages go by their number.
_LOOKED_UP_BY_NAME = ("templates/account/", "templates/allauth/", "templates/errors/")


def pages(patterns=None, space: str = "") -> list[tuple[str, URLPattern]]:
    """(`jobs:detail`, pattern) of every page of our own."""
    found = []
    for pattern in patterns if patterns is not None else get_resolver().url_patterns:
        if isinstance(pattern, URLResolver):
            name = f"{space}{pattern.namespace}:" if pattern.namespace else space
            found += pages(pattern.url_patterns, name)
        elif view_module(pattern).startswith("portal.pages"):
            found.append((f"{space}{pattern.name}", pattern))
    return found


def view_module(pattern: URLPattern) -> str:
    return inspect.unwrap(pattern.callback).__module__


def everything_below(*folders: str) -> str:
    return "\n".join(
        text_of(path)
        for path in tracked()
        if str(path).startswith(folders) and path.suffix in (".py", ".html", ".js", ".txt")
    )


def is_quoted(name: str, text: str) -> bool:
    return re.search(rf"""["']{re.escape(name)}["']""", text) is not None


PAGES = pages()
SOURCES = everything_below("portal/", "templates/", "static/js/", "accounts/")
TESTS = everything_below("tests/")


def test_there_are_pages():
    assert len(PAGES) > 30


@pytest.mark.parametrize("name", [name for name, _ in PAGES])
def test_a_link_leads_to_every_page(name):
    is_linked = is_quoted(name, SOURCES)
    assert is_linked, f"nothing refers to {name}"


@pytest.mark.parametrize("name", [name for name, _ in PAGES])
def test_every_page_is_named_in_a_test(name):
    is_tested = is_quoted(name, TESTS)
    assert is_tested, f"no test names {name}"


@pytest.mark.parametrize(("name", "pattern"), PAGES, ids=[name for name, _ in PAGES])
def test_the_view_carries_the_name(name, pattern):
    view = inspect.unwrap(pattern.callback).__name__
    last = name.rpartition(":")[2]
    stem = re.sub(r"(_page|_points|_tab|_list)$", "", view)
    assert last in view or stem in last or stem.rpartition("_")[2] in last, (name, view)


@pytest.mark.parametrize("path", TEMPLATES, ids=str)
def test_every_template_is_used(path):
    if str(path).startswith(_LOOKED_UP_BY_NAME):
        return
    name = str(path.relative_to("templates"))
    is_used = name in SOURCES
    assert is_used, f"nothing renders or includes {name}"


def test_every_template_that_is_named_exists():
    named = set(re.findall(r"""["']([a-z_/]+\.html)(?:#[a-z_]+)?["']""", SOURCES))
    there = {str(path.relative_to("templates")) for path in TEMPLATES}
    by_others = {name for name in named if name.startswith(("account/", "allauth/", "admin/"))}
    missing = {name for name in named - there - by_others if not Path(name).is_absolute()}
    assert not {name for name in missing if not (ROOT / "templates" / name).exists()}
