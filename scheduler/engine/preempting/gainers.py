"""Who gains by a stop when all who run are chosen anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from scheduler.engine.snapshot import Ints


class Gainers:
    """The jobs (rows) that are `placed`, in turn, by the nodes they take and by account.

    `account`: of each row; None if accounts keep nobody from starting. `tier`: of each row; nobody
    stops for a job of a lower one, which gets what is left over.
    """

    def __init__(
        self,
        placed: Mapping[int, Sequence[tuple[int, int]]],
        account: Ints | None,
        tier: Ints,
    ) -> None:
        self._placed = list(placed)
        self._account = account
        self._tier: list[int] = tier.tolist()
        self._on_node: dict[int, list[int]] = {}
        self._of_account: dict[int, list[int]] = {}
        for turn, (row, shares) in enumerate(placed.items()):
            for node, _ in shares:
                self._on_node.setdefault(node, []).append(turn)
            if account is not None:
                self._of_account.setdefault(int(account[row]), []).append(turn)

    def of(self, row: int, nodes: Set[int]) -> int:
        """The first beside the row who takes one of its nodes, else who is of its account, else
        the first of all, none of a lower tier; the row itself if there is nobody else.
        """
        near = [self._first(self._on_node.get(node, ()), row) for node in nodes]
        found = min((turn for turn in near if turn is not None), default=None)
        if found is None and self._account is not None:
            found = self._first(self._of_account.get(int(self._account[row]), ()), row)
        if found is None:
            found = self._first(range(len(self._placed)), row)
        return row if found is None else self._placed[found]

    def _first(self, turns: Sequence[int], row: int) -> int | None:
        """The first of these turns that is not the row's own."""
        least = self._tier[row]
        others = (turn for turn in turns if self._placed[turn] != row)
        return next((turn for turn in others if self._tier[self._placed[turn]] >= least), None)
