"""Budgets of money where accounts pay by prices of their own: each by its own, told in its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scheduler.engine.snapshot import NONE, Snapshot, SnapshotInvalid, floats, ints
from scheduler.states import WaitReason
from tests.builders import draw, job
from tests.engine.owners import shared_by
from tests.engine.test_quota import facts_of, of, outcome

BROKE = WaitReason.BUDGET_EXHAUSTED
TREE = ("org", "org/a", "org/b", "org/b/p")
HOUR = 3_600


def priced(snapshot: Snapshot, left: float, *, general: float, own: float) -> Snapshot:
    """The organisation has so much left; b, and p below it, pay by a list of their own."""
    names = list(snapshot.account_names)
    money = np.full(len(names), np.inf)
    money[names.index("org")] = left
    lists = ints([0 if name in ("b", "p") else NONE for name in names])
    return replace(
        snapshot,
        accounts=replace(snapshot.accounts, budget_money=floats(money)),
        prices=floats(np.full(len(snapshot.models), general / HOUR)),
        own_prices=np.full((1, len(snapshot.models)), own / HOUR),
        price_list=lists,
        money=("EUR", 1.0),
    )


def two(left: float, *, general: float, own: float, limit_s: int = HOUR) -> Snapshot:
    """A job of a and one of p, an hour on one GPU each."""
    jobs = [job(5, limit_s=limit_s, waited=20), job(6, limit_s=limit_s, waited=10)]
    snapshot = shared_by(draw("a ....", jobs=jobs), *TREE, owners=of(a="5", p="6"))
    return priced(snapshot, left, general=general, own=own)


def test_each_is_measured_by_what_it_pays() -> None:
    assert outcome(two(5, general=2, own=7)) == {5: "starts", 6: BROKE}
    assert outcome(two(5, general=7, own=2)) == {5: BROKE, 6: "starts"}
    assert outcome(two(9, general=2, own=7)) == {5: "starts", 6: "starts"}
    assert outcome(two(8, general=2, own=7)) == {5: "starts", 6: BROKE}


def test_nobody_is_told_what_others_pay() -> None:
    """Also where both have too little: the dear list of one is no fact of the other."""
    snapshot = two(1, general=2, own=7)
    assert (facts_of(snapshot, 5)["asks"], facts_of(snapshot, 6)["asks"]) == (
        "2.00 EUR",
        "7.00 EUR",
    )


def test_whom_only_their_own_list_has_a_price_for_do_not_wait_for_another() -> None:
    snapshot = two(8, general=np.inf, own=7)
    assert outcome(snapshot) == {5: BROKE, 6: "starts"}
    assert "nobody knows" in str(facts_of(snapshot, 5)["asks"])


def test_alike_jobs_of_two_lists_do_not_speak_for_each_other() -> None:
    """The budget is the organisation's alone, so but for prices all below it were alike."""
    jobs = [job(number, limit_s=HOUR, waited=60 - number) for number in (5, 6, 7, 8)]
    snapshot = shared_by(draw("a ........", jobs=jobs), *TREE, owners=of(p="5 7", a="6 8"))
    found = outcome(priced(snapshot, 4, general=2, own=7))
    assert found == {5: BROKE, 6: "starts", 7: BROKE, 8: "starts"}


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"own_prices": np.full((1, 9), 1.0)}, "own_prices and models"),
        ({"own_prices": np.full((1, 1), -1.0)}, "own_prices"),
        ({"price_list": ints([0])}, "price_list and accounts"),
        ({"price_list": ints([5] * 4)}, "price_list"),
    ],
)
def test_lists_that_make_no_sense_are_refused(wrong: dict[str, object], name: str) -> None:
    snapshot = two(5, general=2, own=7)
    with pytest.raises(SnapshotInvalid, match=name):
        outcome(replace(snapshot, **wrong))
