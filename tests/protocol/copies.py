"""Machines that were copied: they have a node's token, and its spool of an earlier moment."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import count

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from accounts.errors import Conflict
from scheduler.conf import load_conf
from scheduler.models import Node
from scheduler.services.sync import sync_node
from tests.protocol.nodes import SimNode
from tests.protocol.wire import NUMBERS, Wire


class Copies(Wire):
    """A copy speaks beside its original, or in its place while that is not heard."""

    def __init__(self) -> None:
        super().__init__()
        # Originals whose place a copy has taken; what runs there runs on.
        self.displaced: list[SimNode] = []
        self._names = count(1)

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        for node in self.displaced:
            node.tick(self.now)

    def _is_heard(self, node: SimNode) -> bool:
        row = Node.objects.get(pk=node.row.pk)
        lease = load_conf().node_lease
        return row.last_seen_at is not None and self.moment() - row.last_seen_at < lease

    @rule(number=NUMBERS)
    def a_copy_speaks(self, number: int) -> None:
        """Another machine with this node's token, while it is heard itself: told nothing."""
        node = self.nodes[number]
        row = Node.objects.select_related("pool").get(pk=node.row.pk)
        if not self._is_heard(node):
            return
        hello = replace(
            node.request(self.moment()), boot_id="copy", agent_id="agent-of-a-copy", reports=()
        )
        self.copied.add(row.name)
        with suppress(Conflict):
            sync_node(node=row, request=hello, now=self.moment())
            raise AssertionError("a copy was let in")

    @precondition(lambda self: not all(map(self._is_heard, self.nodes)))
    @rule(number=NUMBERS, same_start=st.booleans())
    def a_copy_takes_a_place(self, number: int, same_start: bool) -> None:
        """It was made before its original, of which nothing is heard now, was given anything.

        Of the same start of the machine it is a container beside it, which is noticed at once only
        by what the other has reported.
        """
        node = self.nodes[number]
        if self._is_heard(node):
            return
        self.copied.add(node.row.name)
        self.late = [late for late in self.late if late[0] is not node]
        self.late_replies = [late for late in self.late_replies if late[0] is not node]
        name = next(self._names)
        reported = set(
            node.row.placements.exclude(reported="").values_list("attempt_id", flat=True)
        )
        same_start = same_start and node.slots.keys() <= reported
        copy = replace(
            node,
            boot=node.boot if same_start else 10_000 * name,
            starts=10_000 * name,
            is_up=True,
            is_cut=False,
            revision=0,
            acted_at=-1.0,
            is_introduced=False,
            slots={},
            forgotten=set(node.forgotten),
            plans=[],
        )
        self.nodes[number] = copy
        self.displaced.append(node)
        self.talk(copy)

    @precondition(lambda self: self.displaced)
    @rule(which=st.integers(0, 3))
    def a_displaced_one_speaks(self, which: int) -> None:
        """The network is back; it is refused, or takes its place back from a copy that is gone."""
        node = self.displaced[which % len(self.displaced)]
        node.is_up, node.is_cut = True, False
        self.talk(node)
