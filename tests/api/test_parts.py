"""Lists in an order of their own, part after part, while rows come and go."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.models import Licence
from scheduler.services.sites.licences import remove_licence, set_licence
from tests import scenes
from tests.api.conftest import Caller, fields_of, problem_of

pytestmark = pytest.mark.django_db
LIST = "/licences/"


@pytest.fixture
def licences(root: Any) -> None:
    for name in ("b", "c", "d", "e", "f"):
        set_licence(actor=root, name=name, total=1)


def forget(root: Any, name: str) -> None:
    remove_licence(actor=root, licence=Licence.objects.get(name=name))


def names(page: Any) -> str:
    return "".join(one["name"] for one in page["items"])


def part(caller: Caller, cursor: str = "") -> Any:
    return caller.get(f"{LIST}?limit=2{f'&cursor={cursor}' if cursor else ''}").json()


def test_who_asks_for_no_part_gets_all_that_fits(program, root, licences):
    whole = program(root).get(LIST).json()
    assert (names(whole), whole["next_cursor"]) == ("bcdef", None)


def test_what_arrives_or_goes_meanwhile_neither_repeats_nor_skips_a_row(program, root, licences):
    caller = program(root)
    first = part(caller)
    assert names(first) == "bc"
    set_licence(actor=root, name="a", total=1)
    second = part(caller, first["next_cursor"])
    assert names(second) == "de"
    forget(root, "a")
    forget(root, "b")
    assert names(part(caller, second["next_cursor"])) == "f"
    set_licence(actor=root, name="a", total=1)
    set_licence(actor=root, name="b", total=1)
    forget(root, "e")
    gone = part(caller, second["next_cursor"])
    assert (names(gone), gone["next_cursor"]) == ("f", None)


def test_a_cursor_is_of_one_reader_and_one_list(program, root, alice, licences):
    cursor = part(program(root))["next_cursor"]
    for caller, path in (
        (program(alice), LIST),
        (program(root), "/rules/budgets/"),
        (program(root), "/jobs/"),
    ):
        problem = problem_of(caller.get(f"{path}?cursor={cursor}"), 400, "invalid_cursor")
        assert fields_of(problem) == {"cursor"}
    for odd in ("limit=0", "limit=201", "limit=zz", "cursor=zz"):
        problem = problem_of(program(root).get(f"{LIST}?{odd}"), 400)
        assert fields_of(problem) == {odd.partition("=")[0]}


def test_the_answer_to_a_change_leads_into_the_list_of_its_own_address(program, root, monkeypatch):
    monkeypatch.setattr("portal.api.parts.MAX_LIMIT", 2)
    caller = program(root)
    for name in ("a", "b", "c", "d"):
        changed = caller.post("/licences/", {"name": name, "total": 1}).json()
    changed = caller.post("/licences/d/remove/").json()
    assert [one["name"] for one in changed["items"]] == ["a", "b"]
    rest = caller.get(f"/licences/?cursor={changed['next_cursor']}").json()
    assert ([one["name"] for one in rest["items"]], rest["next_cursor"]) == (["c"], None)


def test_a_long_line_is_read_to_its_end(program, alice, carol, project, other_project, cluster):
    """Also behind other people's jobs, which have neither number nor name."""
    mine = [scenes.submit(alice, project, now=scenes.at(2 * n)).pk for n in range(3)]
    for n in range(3):
        scenes.submit(carol, other_project, now=scenes.at(2 * n + 1))
    caller, found, cursor = program(alice), [], ""
    while cursor is not None:
        page = caller.get(f"/queue/default/?limit=2{f'&cursor={cursor}' if cursor else ''}").json()
        found += [(one["position"], one["job"]) for one in page["items"]]
        cursor = page["next_cursor"]
    assert found == list(enumerate((mine[0], None, mine[1], None, mine[2], None), start=1))
