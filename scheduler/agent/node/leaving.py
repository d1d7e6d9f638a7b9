"""What attempts leave on the node, once nobody needs it as theirs any more."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from scheduler.agent.kept.removing import Remover
from scheduler.agent.kept.sweeping import Live
from scheduler.agent.runner import Attempt
from scheduler.agent.runtime.space import commons
from scheduler.agent.runtime.space.memory import remove_memory_of_others
from scheduler.agent.setup.folders import (
    KEPT,
    attempt_folder,
    kept_folder,
    take_back,
    take_back_all,
)
from scheduler.agent.setup.identities import UidBook

logger = logging.getLogger(__name__)


class Leaving:
    """Takes it back: memory, scratch, and where jobs have users of their own, folders and ids.

    `uids` None: they have none. `agent` names what this agent's attempts have in memory.
    """

    def __init__(self, work: Path, uids: UidBook | None, agent: str) -> None:
        self._work, self._uids, self._agent = work, uids, agent
        self._remover = Remover()
        # Apart: ids wait for it, each with what stays.
        self._clearer = Remover()
        self._to_clear: dict[int, set[str]] = {}
        self._lock = threading.Lock()

    def adopt(self, known: Collection[Attempt]) -> None:
        """What an earlier agent had no time to take back, from all but the attempts it left."""
        live = in_use(known)
        remove_memory_of_others(self._agent, live.attempts, self._remover.remove)
        if self._uids is not None:
            try:
                take_back_all(self._work, live.attempts, live.jobs)
            except OSError:
                logger.exception("not all that earlier jobs left could be closed to later ones")

    def rest(self, attempt: Attempt) -> None:
        """It has ended: what it left where everybody may write goes, and waits for no upload."""
        if self._uids is not None:
            self._clear(self._uids, self._uids.rest(attempt.fence), attempt)

    def _clear(self, uids: UidBook, uid: int | None, attempt: Attempt) -> None:
        if uid is None:
            return
        spared = commons.tops_of(attempt.assignment.launch.checkpoint_dir)
        with self._lock:
            self._to_clear[uid] = spared
        self._clearer.have_done(lambda: self._clear_waiting(uids))

    def _clear_waiting(self, uids: UidBook) -> None:
        """All that wait by now, after one look: many attempts end together.

        Those that left nothing wait for no other one's files.
        """
        with self._lock:
            waiting, self._to_clear = self._to_clear, {}
        if not waiting:
            return
        try:
            found = commons.left(waiting, in_folders=uids.in_folders)
            for uid in sorted(waiting, key={one.uid for one in found}.__contains__):
                try:
                    commons.clear(uid, found, waiting.pop(uid))
                except Exception:
                    logger.exception("what user id %d left could not be deleted", uid)
                uids.note_cleared(uid)
        finally:
            for uid in waiting:
                uids.note_cleared(uid)

    def take_back(self, attempt: Attempt, others: Collection[Attempt]) -> None:
        """It is forgotten; `others` are not. What the job keeps goes with its last attempt here.

        Waits for nothing that a job can make long: the node's calls wait behind it.
        """
        order = attempt.assignment
        try:
            attempt.clean_up(self._work, self._agent, self._remover.remove)
        except Exception:
            # Nobody may keep the agent from forgetting, or it would end here again and again.
            logger.exception("what attempt %d left could not be deleted", order.fence)
        folders = [attempt_folder(self._work, order.fence, order.rank)]
        if all(other.assignment.job_id != order.job_id for other in others):
            folders += [kept_folder(self._work, kind, order.job_id) for kind in KEPT]
        for folder in folders:
            with suppress(OSError):
                os.utime(folder)  # from here on it is counted for how long it is kept
        if self._uids is None:
            return
        try:
            take_back(*folders)
        except OSError:
            # The id stays taken, so that nobody gets what is still its own.
            logger.exception("what attempt %d left could not be closed to others", order.fence)
        else:
            # Once more: a look at its checkpoints may have been at work as its user.
            self._clear(self._uids, self._uids.give_back(order.fence), attempt)


def in_use(known: Collection[Attempt]) -> Live:
    """What these attempts have on the node."""
    return Live(
        {f"{one.fence}-{one.assignment.rank}" for one in known},
        {str(one.assignment.job_id) for one in known},
    )
