"""What a node does, for ever: observe, sync, converge, sleep.

Two threads talk to the server. One holds a `sync` open and hears orders the moment they are
given; the other sends a `sync` of its own the moment something here changes, so that an end is
known within milliseconds. Replies carry a revision: an older one changes nothing.

A stopped or killed agent leaves its attempts running; the next one adopts them by the spool.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import threading
import time
import uuid
from dataclasses import replace

from scheduler.agent.client import Backoff, Client, Refused, ServerAway
from scheduler.agent.config import NodeIdentity, Options, make_work_folder
from scheduler.agent.converge import Roster
from scheduler.agent.gpus import Gpus
from scheduler.agent.news import News, hint_address, hint_place, hinted, listen_for_hints
from scheduler.agent.node import host
from scheduler.agent.node.credential import Credential
from scheduler.agent.node.data import DataFolders
from scheduler.agent.node.isolation import Keeping
from scheduler.agent.node.readings import Readings
from scheduler.agent.node.troubles import Checks, TroubleWatch
from scheduler.agent.runtime import processes
from scheduler.agent.runtime.space.contact import since_boot
from scheduler.agent.sessions.notes import ReportDesk
from scheduler.agent.sessions.tunnel import Tunnel, sessions_of
from scheduler.failpoints import reach
from scheduler.wire.messages import (
    AGENT_VERSION,
    PROTOCOL,
    SyncRequest,
    TroubleReport,
)
from scheduler.wire.readings import DeviceSample, HostSample

_RESCAN_S = 1.0
# After a call the pulse rests as long as the call took: what happens meanwhile shares the next one,
# and a busy server is asked less often.
_MAX_REST_S = 0.25
_FATAL = {409: "node_identity_conflict", 426: "protocol_unsupported"}

logger = logging.getLogger(__name__)


class Daemon:
    """The agent of one node. `serve` returns when `stop` was called or a refusal is final."""

    def __init__(
        self,
        identity: NodeIdentity,
        options: Options,
        gpus: Gpus,
        client: Client,
        keeping: Keeping,
    ) -> None:
        self.credential = Credential(options.state, identity, client)
        self.options = options
        self.client = client
        self.gpus = gpus
        self.keeping = keeping
        self.agent_id = uuid.uuid4().hex
        self.fatal: Refused | None = None
        self.failure: Exception | None = None
        self.hint_address = hint_address(options)
        self._hints = listen_for_hints(hint_place(options))
        self._heard, self._told = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._stopping = threading.Event()
        self._introduced = False
        # Why the last call brought nothing; both threads call the same server.
        self._away: ServerAway | None = None
        self._news = News()
        make_work_folder(options.work)
        self.watch = TroubleWatch(
            options.state / "troubles.json",
            gpus,
            boot_id=processes.boot_id(),
            folders=(options.state, options.work),
            min_free_mib=options.min_free_mib,
        )
        self.checks = Checks(gpus, self.watch, self.wake)
        self._wrong: tuple[TroubleReport, ...] = ()
        self.roster = Roster(
            identity, options, client, self.watch, self.hint_address, self.wake, gpus, keeping
        )
        self.desk = ReportDesk(options.work, self.roster.live, self.roster.forkserver.look)
        self.readings = Readings(options.work, gpus)
        self.data = DataFolders(options.data, options.data_every_s)
        self.tunnel = Tunnel(identity.server, options.retry_cap_s)

    def serve(self) -> None:
        """Run until stopped; afterwards `fatal` holds a refusal that ends the agent, if any."""
        self.roster.adopt()
        self.desk.open()
        self.watch.look(self.roster.holders())
        self.data.start()
        poll = threading.Thread(target=self._poll, name="poll", daemon=True)
        poll.start()
        try:
            self._pulse()
        finally:
            self._stopping.set()
            self.tunnel.close()
            self.desk.close()
            self.client.close()
            self.roster.close()
            self._hints.close()

    def stop(self) -> None:
        """End the agent, not its attempts; safe in a signal's call-back."""
        self._stopping.set()
        self.wake()

    def wake(self) -> None:
        """Something changed: look and report now."""
        try:
            os.write(self._told, b"!")
        except BlockingIOError:
            return  # it is being woken already

    def _poll(self) -> None:
        """Hold a sync open, again and again."""
        try:
            self._hold_syncs()
        except Exception as problem:
            if self._stopping.is_set():
                return  # the client was closed under the held call
            # Half an agent would look alive and hear nothing: end, and let it be restarted.
            logger.critical("the agent failed; attempts go on", exc_info=True)
            self.failure = problem
            self.stop()

    def _hold_syncs(self) -> None:
        backoff = Backoff(self.options.retry_cap_s)
        while not self._stopping.is_set():
            if self._sync(self.options.hold_s):
                backoff.reset()
            else:
                self._stopping.wait(backoff.next_s(self._away))

    def _pulse(self) -> None:
        """Observe, and say what changed at once."""
        backoff = Backoff(self.options.retry_cap_s)
        not_before = 0.0
        with selectors.DefaultSelector() as selector:
            selector.register(self._hints, selectors.EVENT_READ)
            selector.register(self._heard, selectors.EVENT_READ)
            while not self._stopping.is_set():
                selector.select(self._nap_s(not_before))
                self.roster.refresh(self._hinted())
                self.tunnel.tend(sessions_of(self.roster), self.credential.shown)
                if self._stopping.is_set() or time.monotonic() < not_before:
                    continue
                if not (self._is_news_due() or self._is_sample_due()):
                    continue
                began = time.monotonic()
                if self._sync(0.0):
                    backoff.reset()
                    not_before = 0.0
                    self._stopping.wait(min(_MAX_REST_S, time.monotonic() - began))
                else:
                    not_before = time.monotonic() + backoff.next_s(self._away)

    def _nap_s(self, not_before: float) -> float:
        due = self.readings.due_at(self._sample_every_s())
        due = max(not_before, min(due, self._news.due_at() or due))
        return max(0.0, min(_RESCAN_S, due - time.monotonic()))

    def _sample_every_s(self) -> float:
        return self.options.sample_s if self.roster.is_busy() else self.options.heartbeat_s

    def _is_sample_due(self) -> bool:
        return time.monotonic() >= self.readings.due_at(self._sample_every_s())

    def _is_news_due(self) -> bool:
        if self.watch.all() != self._wrong or self.checks.results():
            return True
        return self._news.is_due(self.roster.reports(), self.roster.is_awaited)

    def _hinted(self) -> set[int]:
        """The fences that supervisors have named since the last look."""
        fences = hinted(self._hints)
        with contextlib.suppress(BlockingIOError):
            while os.read(self._heard, 4096):
                pass
        return fences

    def _sync(self, hold_s: float) -> bool:
        """One call, and what follows from its answer; False when it should be tried later."""
        # By both clocks now: the machine may sleep before the answer is read.
        sent_at, reached_at = time.monotonic(), since_boot()
        shown = self.credential.shown
        request = self._request(hold_s)
        reach("agent.reporting")
        try:
            reply = self.client.sync(request)
        except ServerAway as problem:
            self._away = problem
            self.readings.give_back(request.samples + request.unrated)
            if not self._stopping.is_set():
                logger.warning("the server is away, attempts go on: %s", problem)
            return False
        except Refused as problem:
            self._away = None
            self._heed(problem, shown)
            return False
        reach("agent.answered")
        self.roster.note_contact(reached_at, request.reports)
        self._introduced = True
        self.data.note_told(request.data)
        self._news.note_told(request.reports, sent_at)
        self._wrong = self._wrong if request.troubles is None else request.troubles
        self.checks.want(reply.check)
        self.credential.take(reply.next_token)
        if self.roster.converge(reply, sent_at):
            self.wake()
        return True

    def _request(self, hold_s: float) -> SyncRequest:
        samples: tuple[DeviceSample, ...] = ()
        host_sample: HostSample | None = None
        if hold_s == 0.0 and self._is_sample_due():
            samples, host_sample = self.readings.take(self.roster.holdings())
            self.watch.look(self.roster.holders())
        wrong = self.watch.all()
        request = SyncRequest(
            protocol=PROTOCOL,
            agent_version=AGENT_VERSION,
            agent_id=self.agent_id,
            boot_id=processes.boot_id(),
            seen_revision=self.roster.heard.revision,
            hold_s=hold_s,
            sent_at=time.time(),
            reports=self.roster.reports(),
            samples=tuple(one for one in samples if one.gpu_percent is not None),
            unrated=tuple(one for one in samples if one.gpu_percent is None),
            host_sample=host_sample,
            checks=self.checks.results(),
            troubles=None if self._introduced and wrong == self._wrong else wrong,
            data=self.data.untold(is_known=self._introduced),
            takes_kept=True,
            takes_token=True,
        )
        if self._introduced:
            return request
        own = self.credential.identity
        facts = host.read_host(
            self.options.work,
            own.server,
            cpus=own.cpus,
            memory_mib=own.memory_mib,
            address=own.address,
            driver=self.gpus.driver,
            isolation=self.keeping.level,
        )
        return replace(request, host=facts, devices=self.gpus.inventory(), hold_s=0.0)

    def _heed(self, problem: Refused, shown: str) -> None:
        if _FATAL.get(problem.status) == problem.refusal.code:
            logger.critical("the server refuses this agent for good: %s", problem)
            self.fatal = problem
            self.stop()
        elif problem.status == 401 and self.credential.is_replaced(shown):
            # It may be another node now; what it has is told anew.
            self._introduced = False
        elif problem.status in (401, 403):
            logger.error(
                "the server does not accept this node's token (%s). Running attempts go on. "
                "Enrol the node again with a new token: enrol --server %s --token TOKEN --state %s",
                problem,
                self.credential.identity.server,
                self.options.state,
            )
        else:
            logger.error("the server refused the sync: %s", problem)
