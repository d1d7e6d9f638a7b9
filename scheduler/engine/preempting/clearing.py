"""Room for one job that fits nowhere: by stopping others, if the policy lets it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import ge

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.board.kept import Kept
from scheduler.engine.gang import shares_of
from scheduler.engine.plan import Resize, Start, Stop
from scheduler.engine.policy import Policy
from scheduler.engine.preempting.claiming import take_cleared
from scheduler.engine.preempting.lending.reclaiming import Claim, Reclaiming, Side
from scheduler.engine.preempting.resizing import Elastic, may_resize
from scheduler.engine.preempting.targeting import Targeting
from scheduler.engine.shaping.sizes import least_size
from scheduler.engine.sharing.quota import Gate
from scheduler.engine.snapshot import NONE, Flags, Ints, Request, flags, ints

# Stops of one cycle; the next one follows in a moment, and sees what has become of them.
MOST_STOPS = 512


@dataclass(frozen=True, slots=True)
class Want:
    """A waiting job (row) that wants room, and what it leaves alone, `beside`, if it is there from
    now until `gone_s`."""

    row: int
    request: Request
    gone_s: float
    beside: Sequence[Kept] = ()


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
        # By side and kind, amounts for which giving back all that is lent was not enough, and when
        # the last of what was kept beside begins: who is gone by then leaves less aside.
        self._failed: dict[tuple[Side, Request], list[tuple[float, tuple[int, ...]]]] = {}
        self._meets_cut: dict[tuple[int, int], bool] = {}
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

    def has_failed(self, want: Want) -> bool:
        """Whether its account can take back nothing for this any more in this cycle."""
        account = int(self._board.snapshot.waiting.account[want.row])
        found = self._claims().find(want.request, account)
        return all(self._was_tried(claim, want) for claim in found)

    def clear(self, want: Want, *, by_tier: bool = True) -> Cleared | None:
        """Stop others for the waiting job, if that makes room for it.

        Without `by_tier` only who runs on what its account lent: the rest was tried for an equal
        request, of the same tier or a higher one.
        """
        board, request = self._board, want.request
        if self.is_idle or not self._stops_lower[request.pool] or len(self.stops) >= MOST_STOPS:
            return None
        # Whom to stop is found by counting; what counts do not tell is not stopped for.
        if not request.is_counted or request.booking != NONE or self._may_meet_cut_cards(request):
            return None
        waiting = board.snapshot.waiting
        if request.nodes_min:
            least = least_size(board.snapshot, request)
            want = replace(want, request=replace(request, nodes=least, nodes_min=0))
        if self.may_claim(int(waiting.account[want.row])):
            cleared = self._take_back(want)
            if cleared is not None:
                return cleared
        tier, targeting = int(waiting.tier[want.row]), self._targets()
        if not by_tier or not targeting.outranks_somebody(tier):
            return None
        below = targeting.below(tier)
        return self._shrink(want, below) or self._stop(want, below, why="tier")

    def _may_meet_cut_cards(self, request: Request) -> bool:
        """Whether the job might get a device of its pool on a card that tenants do not share."""
        board, kind = self._board, (request.pool, request.model)
        if not board.cards.matter:
            return False
        if kind not in self._meets_cut:
            devices = board.snapshot.devices
            in_pool = board.in_pool[request.pool][devices.node]
            its = flags(in_pool & board.accepts[request.model][devices.model])
            self._meets_cut[kind] = board.cards.are_cut(its)
        return self._meets_cut[kind]

    def _take_back(self, want: Want) -> Cleared | None:
        """Shrink those who run on what the job's own account lent, else stop them."""
        account = int(self._board.snapshot.waiting.account[want.row])
        for claim in self._claims().find(want.request, account):
            if self._was_tried(claim, want):
                continue
            facts = {"why": "reclaim", "given_back_to": self._gate.name_of(claim.owner)}
            cleared = self._shrink(want, claim.takers) or self._stop(want, claim.takers, **facts)
            if cleared is not None:
                return cleared
            kind, amounts = kind_and_amounts(want.request)
            last_s = max((one.from_s for one in want.beside), default=-np.inf)
            self._failed.setdefault((claim.side, kind), []).append((last_s, amounts))
        return None

    def _was_tried(self, claim: Claim, want: Want) -> bool:
        """Whether a request of its kind, no larger and no longer there, fitted nowhere even with
        all of that."""
        kind, amounts = kind_and_amounts(want.request)
        failed = self._failed.get((claim.side, kind), ())
        return any(want.gone_s > last_s and all(map(ge, amounts, it)) for last_s, it in failed)

    def _stop(self, want: Want, may_go: Flags, **facts: object) -> Cleared | None:
        snapshot, targeting = self._board.snapshot, self._targets()
        clearing = targeting.find(want.request, may_go, want.beside)
        if clearing is None:
            return None
        start = self._take(want, clearing.nodes, targeting.held_rows(clearing.victims))
        tier, job = int(snapshot.waiting.tier[want.row]), start.job
        self.stops += targeting.stop(clearing.victims, job, {**facts, "beneficiary_tier": tier})
        return Cleared(want.request, start)

    def _shrink(self, want: Want, among: Flags) -> Cleared | None:
        """Let elastic ones of these running rows give nodes back for it, if the policy resizes."""
        board, running = self._board, self._board.snapshot.running
        if running is None or not may_resize(running, self._policy):
            return None
        if self._elastic is None:
            self._elastic = Elastic(board, running, self._policy)
        self._elastic.is_open &= ~self._targets().is_gone
        job = int(board.snapshot.waiting.id[want.row])
        found = self._elastic.shrink_for(job, want.request, among, want.beside)
        if found is None:
            return None
        self.resizes += found.resizes
        resized = [resize.job for resize in found.resizes]
        self._targets().let_go(ints(np.flatnonzero(np.isin(running.jobs.id, resized))))
        return Cleared(want.request, self._take(want, found.nodes, found.leaving))

    def _take(self, want: Want, nodes: Ints, leaving: Ints) -> Start:
        """Start it on these nodes, where these rows of `Held` leave."""
        board, request = self._board, want.request
        job = int(board.snapshot.waiting.id[want.row])
        until_s = board.snapshot.now_s + float(board.snapshot.waiting.remaining_s[want.row])
        start = take_cleared(board, job, request, nodes, leaving, until_s)
        # Promises to others lie there too, of which it may take what is theirs.
        board.keeping.charge(request.pool, shares_of(request, nodes), want.gone_s)
        return start

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
