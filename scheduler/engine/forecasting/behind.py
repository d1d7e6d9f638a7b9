"""Those behind the jobs that are laid out: told by what has to pass before them, not by places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.engine.forecasting.allowances import Supply, Terms
from scheduler.engine.snapshot import Floats, Ints, floats, ints


@dataclass(frozen=True, slots=True, eq=False)
class _Needs:
    """A row for each supply that a job needs something of: job by job, term by term."""

    supply: Ints
    need: Ints
    job: Ints
    is_term: Ints
    is_job: Ints

    @classmethod
    def of(cls, kind: Ints, terms: Sequence[Terms]) -> _Needs:
        """`kind`: by job the row of its terms, none of which is empty."""
        pairs = [[pair for term in one for pair in term] for one in terms]
        supply, need = zip(*(pair for one in pairs for pair in one), strict=True)
        begins = [[place == 0 for term in one for place in range(len(term))] for one in terms]
        is_begin = np.array([begin for one in begins for begin in one], dtype=np.bool_)
        counts = ints([len(one) for one in pairs])
        first = np.cumsum(counts) - counts
        many = counts[kind]
        before = np.cumsum(many) - many
        at = np.repeat(first[kind] - before, many) + np.arange(int(many.sum()))
        is_term = np.flatnonzero(is_begin[at])
        job = np.repeat(np.arange(len(kind)), many)
        is_job = np.searchsorted(is_term, before)
        return cls(ints(supply)[at], ints(need)[at], ints(job), ints(is_term), ints(is_job))


def allowed_by_terms(
    kind: Ints, terms: Sequence[Terms], run_s: Floats, left: Sequence[Supply]
) -> Floats:
    """By job, in order: from when on its limits allow it; of alternatives the first, of terms the
    last.

    `kind`: by job the row of `terms`; `left`: by supply what is free after those laid out. Minus
    infinity without terms.
    """
    is_never = np.array([() in one for one in terms], dtype=np.bool_)[kind]
    asks = ints(np.flatnonzero((np.array([len(one) for one in terms])[kind] > 0) & ~is_never))
    found_s = floats(np.where(is_never, np.inf, -np.inf))
    if not len(asks):
        return found_s
    used, its_kind = np.unique(kind[asks], return_inverse=True)
    needs = _Needs.of(ints(its_kind), [terms[row] for row in used.tolist()])
    its_run_s = run_s[asks][needs.job]
    order = np.argsort(needs.supply, kind="stable")
    free_s = np.empty(len(order))
    for of_one in np.split(order, np.flatnonzero(np.diff(needs.supply[order])) + 1):
        supply = left[int(needs.supply[of_one[0]])]
        need = ints(needs.need[of_one])
        free_s[of_one] = ready_s(supply, need, need, floats(its_run_s[of_one]))
    by_term = np.minimum.reduceat(free_s, needs.is_term)
    found_s[asks] = np.maximum.reduceat(by_term, needs.is_job)
    return found_s


def ready_s(supply: Supply, need: Ints, takes: Ints, run_s: Floats) -> Floats:
    """When that is free, by job in order that needs so much of it, and takes so much as it runs.

    The first ones take what comes free in turn; then it is when it is free on average, and the work
    ahead by its size.
    """
    when_s = floats([at_s for at_s, _ in supply])
    much = ints([free for _, free in supply])
    capacity = int(much.sum())
    if not capacity:
        return floats(np.full(len(need), np.inf))
    work_s = np.multiply(takes, run_s, where=takes > 0, out=np.zeros(len(need)))
    through = _before(floats(takes)) + need
    first = np.minimum(np.searchsorted(np.cumsum(much), through), len(when_s) - 1)
    later_s = float((when_s * much).sum()) / capacity + _before(work_s) / capacity
    found_s = np.where(through <= capacity, when_s[first], later_s)
    return floats(np.where(need > capacity, np.inf, found_s))


def _before(column: Floats) -> Floats:
    """The sum of those before each."""
    return floats(np.concatenate([[0.0], np.cumsum(column)])[:-1])
