"""Room for one job that fits nowhere: by stopping others, if the policy lets it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import ge

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.board.kept import Kept
from scheduler.engine.plan import Resize, Start, Stop
from scheduler.engine.policy import Policy
from scheduler.engine.preempting.claiming import take_cleared
from scheduler.engine.preempting.lending.reclaiming import Claim, Reclaiming, Side
from scheduler.engine.preempting.resizing import Elastic, may_resize
from scheduler.engine.preempting.targeting import Targeting
from scheduler.engine.shaping.sizes import least_size
from scheduler.engine.sharing.quota import Gate
from scheduler.engine.snapshot import NONE, Flags, Request, ints

# Stops of one cycle; the next one follows in a moment, and sees what has become of them.
MOST_STOPS = 512


@dataclass(frozen=True, slots=True)
class Cleared:
    """A start on what its stops give back, and the request as it starts."""

    request: Request
    start: Start


class Clearer:
    """Owners take back what they lent first, then higher tiers stop lower ones.

    `stops` and `resizes` are those of the whole cycle.
    """

    def __init__(self, board: Board, gate: Gate, policy: Policy) -> None:
        self.stops: list[Stop] = []
        self.resizes: list[Resize] = []
        self._board = board
        self._gate = gate
        self._policy = policy
        by_pool = policy.by_pool(board.snapshot.pools)
        self._stops_lower = [one.stops_lower_tiers for one in by_pool]
        self._targeting: Targeting | None = None
        self._reclaiming: Reclaiming | None = None
        self._elastic: Elastic | None = None
        self._may_claim: dict[int, bool] = {}
        # By side and kind, amounts for which giving back all that is lent was not enough.
        self._failed: dict[tuple[Side, Request], list[tuple[int, ...]]] = {}
        running = board.snapshot.running
        # Whether nobody can be stopped at all.
        self.is_idle = running is None or not any(self._stops_lower) or not len(running.jobs)

    def may_claim(self, account: int) -> bool:
        """Whether the account may have lent something that others use now."""
        if self.is_idle or not self._gate.cohorts:
            return False
        # All whom one account rules may claim alike.
        ruler = int(self._gate.ruled_by[account])
        if ruler not in self._may_claim:
            self._may_claim[ruler] = self._claims().may_claim(ruler)
        return self._may_claim[ruler]

    def has_failed(self, row: int, request: Request) -> bool:
        """Whether the row's account can take back nothing for this any more in this cycle."""
        account = int(self._board.snapshot.waiting.account[row])
        found = self._claims().find(request, account)
        return found is None or self._was_tried(found, request)

    def clear(
        self, row: int, request: Request, beside: Sequence[Kept], *, by_tier: bool = True
    ) -> Cleared | None:
        """Stop others for the waiting row, if that makes room for it.

        Without `by_tier` only who runs on what its account lent: the rest was tried for an equal
        request, of the same tier or a higher one.
        """
        board = self._board
        if self.is_idle or not self._stops_lower[request.pool] or len(self.stops) >= MOST_STOPS:
            return None
        # Whom to stop is found by counting; what counts do not tell is not stopped for.
        if not request.is_counted or board.cards.matter or request.booking != NONE:
            return None
        waiting = board.snapshot.waiting
        least = least_size(board.snapshot, request)
        sized = replace(request, nodes=least, nodes_min=0) if request.nodes_min else request
        if self.may_claim(int(waiting.account[row])):
            cleared = self._take_back(row, sized, beside)
            if cleared is not None:
                return cleared
        tier, targeting = int(waiting.tier[row]), self._targets()
        if not by_tier or not targeting.outranks_somebody(tier):
            return None
        below = targeting.below(tier)
        shrunk = self._shrink(row, sized, below, beside)
        if shrunk is not None:
            return shrunk
        return self._stop(row, sized, below, beside, why="tier")

    def _take_back(self, row: int, request: Request, beside: Sequence[Kept]) -> Cleared | None:
        """Shrink those who run on what the job's own account lent, else stop them."""
        account = int(self._board.snapshot.waiting.account[row])
        found = self._claims().find(request, account)
        if found is None:
            return None
        if self._was_tried(found, request):
            return None
        shrunk = self._shrink(row, request, found.takers, beside)
        if shrunk is not None:
            return shrunk
        whose = self._gate.name_of(found.owner)
        cleared = self._stop(row, request, found.takers, beside, why="reclaim", given_back_to=whose)
        if cleared is None:
            kind, amounts = kind_and_amounts(request)
            self._failed.setdefault((found.side, kind), []).append(amounts)
        return cleared

    def _was_tried(self, claim: Claim, request: Request) -> bool:
        """Whether a request of its kind, and no larger, fitted nowhere even with all of that."""
        kind, amounts = kind_and_amounts(request)
        failed = self._failed.get((claim.side, kind), ())
        return any(all(map(ge, amounts, other)) for other in failed)

    def _stop(
        self,
        row: int,
        request: Request,
        may_go: Flags,
        beside: Sequence[Kept],
        **facts: object,
    ) -> Cleared | None:
        snapshot, targeting = self._board.snapshot, self._targets()
        clearing = targeting.find(request, may_go, beside)
        if clearing is None:
            return None
        job = int(snapshot.waiting.id[row])
        until_s = snapshot.now_s + float(snapshot.waiting.remaining_s[row])
        leaving = targeting.held_rows(clearing.victims)
        start = take_cleared(self._board, job, request, clearing.nodes, leaving, until_s)
        tier = int(snapshot.waiting.tier[row])
        self.stops += targeting.stop(clearing.victims, job, {**facts, "beneficiary_tier": tier})
        return Cleared(request, start)

    def _shrink(
        self, row: int, request: Request, among: Flags, beside: Sequence[Kept]
    ) -> Cleared | None:
        """Let elastic ones of these running rows give nodes back for it, if the policy resizes."""
        board, running = self._board, self._board.snapshot.running
        if running is None or not may_resize(running, self._policy):
            return None
        if self._elastic is None:
            self._elastic = Elastic(board, running, self._policy)
        self._elastic.is_open &= ~self._targets().is_gone
        snapshot, job = board.snapshot, int(board.snapshot.waiting.id[row])
        found = self._elastic.shrink_for(job, request, among, beside)
        if found is None:
            return None
        self.resizes += found.resizes
        resized = [resize.job for resize in found.resizes]
        self._targets().let_go(ints(np.flatnonzero(np.isin(running.jobs.id, resized))))
        until_s = snapshot.now_s + float(snapshot.waiting.remaining_s[row])
        start = take_cleared(board, job, request, found.nodes, found.leaving, until_s)
        return Cleared(request, start)

    def _targets(self) -> Targeting:
        running = self._board.snapshot.running
        assert running is not None
        if self._targeting is None:
            self._targeting = Targeting(self._board, running, self._policy)
        return self._targeting

    def _claims(self) -> Reclaiming:
        if self._reclaiming is None:
            self._reclaiming = Reclaiming(self._gate, self._targets())
        return self._reclaiming


@lru_cache(maxsize=4096)
def kind_and_amounts(request: Request) -> tuple[Request, tuple[int, ...]]:
    """What a request is without its amounts and its queue, and those amounts."""
    kind = replace(request, queue=NONE, nodes=0, gpus=0, part_gpus=0, cpus=0, memory_mib=0)
    return kind, (request.nodes, request.gpus, request.part_gpus, request.cpus, request.memory_mib)
