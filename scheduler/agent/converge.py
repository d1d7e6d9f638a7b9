"""The attempts of this node, and how they are brought to what the server wants."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence

from scheduler.agent.client import Client
from scheduler.agent.config import NodeIdentity, Options
from scheduler.agent.gpus import Gpus, Holding
from scheduler.agent.kept.sweeping import Sweeper
from scheduler.agent.logs import LogShipper
from scheduler.agent.news import Contact, Heard
from scheduler.agent.node.accepting import accept, refusal, start_all
from scheduler.agent.node.ends import Ends
from scheduler.agent.node.isolation import Keeping
from scheduler.agent.node.leaving import Leaving, in_use
from scheduler.agent.node.loads import Loads
from scheduler.agent.node.patches import Patches
from scheduler.agent.node.rounds import Rounds
from scheduler.agent.node.troubles import TroubleWatch
from scheduler.agent.outputs import OutputDesk
from scheduler.agent.runner import Attempt
from scheduler.agent.runtime import processes
from scheduler.agent.runtime.forking.forkserver import Forkserver
from scheduler.agent.runtime.space.memory import memory_note
from scheduler.agent.setup.identities import UidBook, seed_of
from scheduler.agent.setup.ports import NoFreePort
from scheduler.agent.setup.prepare import Ground
from scheduler.agent.spool import Spool
from scheduler.agent.watch import CheckpointWatch
from scheduler.failpoints import reach
from scheduler.states import AttemptState, EndReason
from scheduler.wire.messages import Assignment, AttemptReport, SyncReply

# A little less than the pulse's longest nap.
_LOOK_S = 0.9
# Long enough to see that there is no new checkpoint, short enough for the agent's pulse.
_LAST_LOOK_S = 0.05

logger = logging.getLogger(__name__)


class Roster:
    """All attempts here. Thread-safe; `on_change` is called when a start made progress."""

    def __init__(
        self,
        identity: NodeIdentity,
        options: Options,
        client: Client,
        watch: TroubleWatch,
        hint_address: str,
        on_change: Callable[[], None],
        gpus: Gpus,
        keeping: Keeping,
    ) -> None:
        self.identity = identity
        self.gpus = gpus
        self.keeping = keeping
        self.ends = Ends(watch)
        self.options = options
        self.client = client
        self.hint_address = hint_address
        self.on_change = on_change
        self.spool = Spool(options.state / "spool")
        self.forkserver = Forkserver()
        self.uids: UidBook | None = None
        if options.job_uids is not None and os.geteuid() == 0:
            self.uids = UidBook(*options.job_uids, in_folders=not keeping.program)
        self._leaving = Leaving(options.work, self.uids, hint_address)
        self.heard = Heard()
        copy = memory_note(f"{hint_address}-{identity.node_id}-contact")
        self.contact = Contact(options.state.resolve() / "last_sync", copy, processes.boot_id())
        self._attempts: dict[int, Attempt] = {}
        self._shippers: dict[int, LogShipper] = {}
        self._rounds = Rounds()
        self._refused: dict[int, AttemptReport] = {}
        self._patches = Patches()
        self._loads = Loads()
        self._looked_at = 0.0
        self._lock = threading.RLock()
        kept_s = options.keep_work_s, options.keep_checkpoints_s
        self._sweeper = Sweeper(options.work, *kept_s, self._lock, client.clock_ahead_s)
        self._outputs = OutputDesk(client, options.retry_cap_s, self._lock, self._forget)

    def adopt(self) -> None:
        """Take over what an earlier agent left running or ended; nothing is started again."""
        self.forkserver.warm_up()
        for slot in self.spool.slots():
            reach("agent.adopting")
            attempt = Attempt(slot)
            attempt.refresh(self.contact.at)
            logger.info("adopted attempt %d: %s", attempt.fence, attempt.report().state)
            if self.uids and attempt.launch and attempt.launch.uid is not None:
                seed = seed_of(self.options.state, attempt.assignment.job_id)
                self.uids.note(attempt.fence, attempt.launch.uid, seed)
            self._keep(attempt)
        self._leaving.adopt(self._attempts.values())

    def close(self) -> None:
        """Let go of everything; attempts run on."""
        self._rounds.close()
        for shipper in self._shippers.values():
            shipper.stop()
        for attempt in self._attempts.values():
            if attempt.checkpoints is not None:
                attempt.checkpoints.stop()
        self.forkserver.close()
        if not self.is_busy():
            self.contact.close()

    def refresh(self, hinted: Collection[int]) -> None:
        """Look at the files of attempts that a supervisor has named, once a second at all of them.

        What has ended is examined, shipped and given back.
        """
        looks_at_all = time.monotonic() - self._looked_at >= _LOOK_S
        if looks_at_all:
            self._looked_at = time.monotonic()
        for attempt in [one for one in self._all() if one.fence not in self.ends]:
            if looks_at_all or attempt.fence in hinted:
                attempt.refresh(self.contact.at)
            if attempt.end is not None:
                logger.info("attempt %d ended: %s", attempt.fence, attempt.end.end_reason)
                reach("agent.end-seen")
                if attempt.checkpoints is not None:
                    attempt.checkpoints.finish(_LAST_LOOK_S)
                self.ends.examine(attempt.report(), attempt.assignment.device_uuids, self.holders)
                if shipper := self._shippers.get(attempt.fence):
                    shipper.nudge()
                self._outputs.ship(attempt.slot)
                self._leaving.rest(attempt)
        self._sweeper.sweep(lambda: in_use(self._all()))

    def _all(self) -> list[Attempt]:
        with self._lock:
            return list(self._attempts.values())

    def live(self) -> list[Attempt]:
        """Those that have not ended."""
        return [attempt for attempt in self._all() if attempt.end is None]

    def holders(self) -> dict[str, int]:
        """The fence that has each device that is held."""
        return {uuid: a.fence for a in self.live() for uuid in a.assignment.device_uuids}

    def reports(self) -> tuple[AttemptReport, ...]:
        """What the server should know of every attempt it has not told us to forget."""
        with self._lock:
            known = [a for a in self._attempts.values() if not self._outputs.is_let_go(a.fence)]
            told = self._patches.is_told
            found = [self.ends.amend(a.report(with_patch=not told(a.fence))) for a in known]
            return (*self._patches.fitting(found), *self._refused.values())

    def is_awaited(self, report: AttemptReport) -> bool:
        """Whether anybody acts on this news: more than a beginning, or the port of a gang."""
        attempt = self._attempts.get(report.fence)
        is_gang = attempt is not None and len(attempt.assignment.addresses) > 1
        return report.state is not AttemptState.STARTING or is_gang

    def is_busy(self) -> bool:
        """Whether any attempt is still alive."""
        return bool(self.live())

    def holdings(self) -> dict[str, Holding]:
        """Who holds which device, and how hard its processes work."""
        with self._lock:
            return self._loads.of(self.live())

    def note_contact(self, sent_at: float, told: tuple[AttemptReport, ...]) -> None:
        """The server was reached, `sent_at` since the boot, and knows the reports `told`."""
        with self._lock:
            self._patches.note_told(told)
        self.contact.note(sent_at)

    def converge(self, reply: SyncReply, sent_at: float) -> bool:
        """Do what the reply wants, unless a newer one was seen; True when something changed.

        `sent_at`: when the call was made, monotonic. Two calls are on their way at a time, so a
        reply may be older than an attempt it does not list; such silence stops nothing.
        """
        with self._lock:
            if not self.heard.takes(reply.revision, sent_at):
                return False
            wanted = {assignment.fence: assignment for assignment in reply.assignments}
            changed = self._forget(reply.forget)
            fresh = []
            for assignment in wanted.values():
                if assignment.fence in self._attempts:
                    changed |= self._bring_to(assignment)
                elif self._is_to_begin(assignment):
                    fresh.append(assignment)
            self._accept(fresh)
            changed |= bool(fresh)
            listed = wanted.keys() | set(reply.kept)
            for fence, attempt in self._attempts.items():
                if fence not in listed and attempt.known_since < sent_at:
                    changed |= attempt.drop()
            return changed

    def _bring_to(self, assignment: Assignment) -> bool:
        if (attempt := self._attempts[assignment.fence]).end is not None:
            return self._outputs.recall(assignment.fence)
        if (stop := assignment.stop) is None:
            return attempt.slot.allow(assignment.launch.time_limit_s)
        before = attempt.stop_order
        attempt.order_stop(stop.reason, stop.grace_s)
        return attempt.stop_order != before

    def _is_to_begin(self, assignment: Assignment) -> bool:
        if assignment.fence in self._refused:
            return False
        if self.spool.was_forgotten(assignment.fence):
            # A database that was put back may know nothing of its end: nobody else can tell it.
            if self.spool.is_gone(assignment.fence):
                words = "it was here, ended and was forgotten"
                self._refused[assignment.fence] = refusal(assignment, words, EndReason.NODE_LOST)
            return False
        knows_port = assignment.rank == 0 or assignment.master_port is not None
        return assignment.stop is not None or knows_port

    def _accept(self, assignments: Sequence[Assignment]) -> None:
        """Take them, then begin."""
        slots = accept(self.spool, self.options, assignments, self._refuse)
        begun = [attempt for slot in slots if self._takes_up(attempt := Attempt(slot))]
        start_all(begun, self._ground, self.forkserver, self.on_change)

    def _refuse(self, assignment: Assignment, problem: OSError) -> None:
        logger.error("attempt %d is refused: %s", assignment.fence, problem)
        self._refused[assignment.fence] = refusal(assignment, str(problem))

    def _takes_up(self, attempt: Attempt) -> bool:
        """Know it from now on; whether it is to be prepared and launched."""
        reach("agent.accepted")
        self._keep(attempt)
        if (stop := attempt.assignment.stop) is not None:
            attempt.order_stop(stop.reason, stop.grace_s)
            attempt.end_early()
            return False
        logger.info("attempt %d of job %d begins", attempt.fence, attempt.assignment.job_id)
        try:
            attempt.reserve_port(self.options.ports)
        except (OSError, NoFreePort) as problem:
            attempt.end_early(EndReason.START_FAILED, f"no port for rank 0: {problem}")
            return False
        attempt.is_preparing = True
        return True

    def _ground(self, attempt: Attempt) -> Ground:
        return Ground(
            options=self.options,
            hint_address=self.hint_address,
            last_sync_paths=self.contact.paths,
            uids=self.uids,
            look=self.forkserver.look,
            device_files=self.gpus.device_files,
            sandbox=self.keeping.program,
            secrets=self.client.secrets,
            master_port=attempt.master_port or 0,
            is_stopped=attempt.is_stopping,
        )

    def _keep(self, attempt: Attempt) -> None:
        self._attempts[attempt.fence] = attempt
        shipper = LogShipper(attempt.slot, self.client, self.options.retry_cap_s)
        self._shippers[attempt.fence] = shipper
        self._rounds.add(shipper.look)
        if attempt.assignment.rank == 0:
            # One reader is enough: the ranks share a folder, or rank 0 writes for all of them.
            looks = self.forkserver.look
            attempt.checkpoints = CheckpointWatch(attempt.slot, looks, self.on_change)
            self._rounds.add(attempt.checkpoints.look)

    def _forget(self, fences: Iterable[int]) -> bool:
        """Let go of what the server knows to its end; True when anything was."""
        gone, changed = [], False
        for fence in fences:
            changed |= self._refused.pop(fence, None) is not None
            attempt = self._attempts.get(fence)
            if attempt is None or attempt.end is None:
                continue  # one that still runs is stopped by not being listed
            if self._outputs.holds_back(fence):
                continue
            self._shippers.pop(fence).stop()
            if attempt.checkpoints is not None:
                attempt.checkpoints.stop()
            self._loads.forget(fence)
            self._patches.forget(fence)
            self.ends.forget(fence)
            del self._attempts[fence]
            reach("agent.forgetting")
            self._leaving.take_back(attempt, self._attempts.values())
            gone.append(attempt.slot)
        if gone:
            self.spool.forget(gone)
        return changed or bool(gone)
