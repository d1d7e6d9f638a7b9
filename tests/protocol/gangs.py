"""A gang that loses a node: left to chance it came once in 64 histories, so it is a rule.

As a rule alone it still came in none of one part's sixteen histories and in five of another's. So
half of the parts begin each history with it, and that it came there is asserted.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from scheduler.models import Attempt
from scheduler.states import AttemptState
from tests.protocol.nodes import SimNode
from tests.protocol.people import BEGINNINGS, People

_LONG = (2000.0, 0)
LOSSES: dict[str, Any] = {
    "nodes": st.sampled_from([2, 2, "2..3"]),
    "rank": st.integers(0, 2),
    "how": st.sampled_from(["cut off", "cut off", "restarted", "dies with its agent"]),
}


class Gangs(People):
    """People whose jobs run on several nodes, one of which goes.

    `begins_with_a_loss`: before other rules have all nodes busy, cut off or out of service.
    """

    begins_with_a_loss = False

    @initialize(loss=st.fixed_dictionaries(LOSSES), **BEGINNINGS)
    def begin(
        self,
        wishes: list[tuple[Any, int, str]],
        plans: list[tuple[float, int]],
        is_under_way: bool,
        loss: dict[str, Any] | None = None,
    ) -> None:
        """Everybody else begins after it."""
        if self.begins_with_a_loss and loss is not None:
            for node in self.nodes:
                self.talk(node)
            self.a_gang_loses_a_node(**loss)
        super().begin(wishes, plans, is_under_way)

    @rule(**LOSSES)
    def a_gang_loses_a_node(self, nodes: Any, rank: int, how: str) -> None:
        """The first host or another, for longer than may be waited for, or with another boot."""
        gang = self._gang() or self._new_gang(nodes)
        if gang is None:
            return
        ranks = list(gang.placements.select_related("node").order_by("rank"))
        node = self._named(ranks[rank % len(ranks)].node.name)
        if how == "restarted":
            node.reboot(self.now)
            self.live_on(2)
            return
        # Its programs go on by themselves until their grace is over; others may begin only then.
        node.is_cut = True
        node.is_up = how == "cut off" and node.is_up
        self.live_on(18)
        node.is_cut = False
        if not node.is_up:
            node.restart_agent()
        self.live_on(1)

    def _gang(self) -> Attempt | None:
        """One at work on several nodes."""
        live = Attempt.objects.filter(state=AttemptState.RUNNING, placements__rank=1)
        return live.order_by("pk").first()

    def _new_gang(self, nodes: Any) -> Attempt | None:
        """None: too few nodes take work now."""
        for node in self.nodes:
            node.plans.insert(0, _LONG)
        self.submit(100 + len(self.accepted), nodes, 1, 0, 0, "production", 3600)
        self.cycle(0)
        # Ranks wait for the first one's port: by heartbeats alone their start would be overdue.
        for _ in range(4):
            self.advance(3.0)
            for node in self.nodes:
                self.ship(node)
                self.talk(node)
        return self._gang()

    def _named(self, name: str) -> SimNode:
        return next(node for node in self.nodes if node.row.name == name)
