"""A user id of its own for every attempt: numeric, unused, without an account."""

from __future__ import annotations

import os
import pwd
import stat
import threading
import time
import zlib
from collections.abc import Container
from contextlib import suppress
from pathlib import Path

from scheduler.agent.runtime import processes
from scheduler.agent.runtime.space import commons
from scheduler.agent.runtime.space.trees import opened, walk

_SHARED_S = 0.1
# For the id that a job had before; another one is only less handy.
_PATIENCE_S = 30.0


def name_of(uid: int | None) -> str:
    """The name of our own account for None. An attempt's id has none: one name for all of them."""
    if uid is None:
        with suppress(KeyError):
            return pwd.getpwuid(os.geteuid()).pw_name
    return "trainyard"


class NoFreeUid(Exception):
    """Every id of the configured range is taken."""


class UidBook:
    """Who has which user id. Thread-safe.

    `in_folders`: jobs see the host's own `/tmp`, so what lies there keeps its id from others.
    """

    def __init__(self, first: int, last: int, *, in_folders: bool = True) -> None:
        self.first = first
        self.last = last
        self.ids = range(first, last + 1)
        self.in_folders = in_folders
        # By fence, with the seed of its job; of those at rest the program is over.
        self._holders: dict[int, tuple[int, str]] = {}
        self._at_rest: set[int] = set()
        # What it left is being deleted; by id the seed of its job.
        self._clearing: dict[int, str] = {}
        self._lock = threading.Condition()
        self._look_lock = threading.Lock()
        self._looked_at, self._seen = -_SHARED_S, set[int]()
        self._left: list[commons.Left] = []

    def note(self, fence: int, uid: int, seed: str) -> None:
        """An adopted attempt has this id already."""
        with self._lock:
            self._holders[fence] = uid, seed

    def rest(self, fence: int) -> int | None:
        """All its processes are gone; what it left is its own, or its job's next attempt's.

        Says the id if nobody has it: nobody gets it before `note_cleared`.
        """
        with self._lock:
            self._at_rest.add(fence)
            return self._to_clear(*self._holders.get(fence, (None, "")))

    def give_back(self, fence: int) -> int | None:
        """The attempt is over, and nothing in its folders belongs to the id; says it as `rest`."""
        with self._lock:
            self._at_rest.discard(fence)
            return self._to_clear(*self._holders.pop(fence, (None, "")))

    def _to_clear(self, uid: int | None, seed: str) -> int | None:
        live = {its for fence, (its, _) in self._holders.items() if fence not in self._at_rest}
        if uid is None or uid in live or uid in self._clearing:
            return None
        self._clearing[uid] = seed
        return uid

    def note_cleared(self, uid: int) -> None:
        """What could be deleted is."""
        with self._lock:
            del self._clearing[uid]
            self._lock.notify_all()

    def pick(self, fence: int, seed: str, own: str = "") -> int:
        """An id that no account, no process and no other attempt uses; may raise NoFreeUid.

        `seed` decides where the search begins: a job tends to meet its own id again, so that
        its checkpoints are already its own, and two agents on one host begin apart. Nor has anybody
        left anything in folders of everybody as that id, but for the job's own folder `own`.
        """
        size = self.last - self.first + 1
        begin = zlib.crc32(seed.encode()) % size
        with self._lock:
            self._lock.wait_for(lambda: seed not in self._clearing.values(), _PATIENCE_S)
        seen, left = self._look()
        spared = commons.tops_of(own)
        with self._lock:
            mine = {uid for uid, its_seed in self._holders.values() if its_seed == seed}
            busy = {one.uid for one in left if one.path not in spared} - mine
            busy |= seen | self._clearing.keys()
            busy |= {
                uid
                for holder, (uid, its_seed) in self._holders.items()
                if its_seed != seed or holder not in self._at_rest
            }
            for step in range(size):
                uid = self.first + (begin + step) % size
                if uid not in busy and not _has_account(uid):
                    self._holders[fence] = uid, seed
                    return uid
        raise NoFreeUid(
            f"all user ids from {self.first} to {self.last} are in use, or own something in "
            f"{', '.join(commons.FOLDERS)}; widen --job-uids, or remove what is left there"
        )

    def _look(self) -> tuple[set[int], list[commons.Left]]:
        """The ids of all processes of the host, and what lies in folders of everybody.

        As it was a moment ago: many starts share one look. A user id that somebody else takes up
        meanwhile would be missed by a fresh look, too: the attempt's own processes come a moment
        later.
        """
        with self._look_lock:
            if time.monotonic() - self._looked_at > _SHARED_S:
                self._looked_at, self._seen = time.monotonic(), processes.uids_in_use()
                self._left = commons.left(self.ids, in_folders=self.in_folders)
            return self._seen, self._left


def seed_of(state: Path, job_id: int) -> str:
    """A job's own; the state folder tells agents of one host apart, and two installations."""
    return f"{state}/{job_id}"


def _has_account(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def give(path: Path, uid: int | None) -> None:
    """Make a file or an empty folder `uid`'s own; None leaves it as it is. Follows no link."""
    if uid is not None:
        os.chown(path, uid, uid, follow_symlinks=False)


def make_own(folder: Path, uid: int | None, ids: Container[int] = ()) -> None:
    """Make a folder that is `uid`'s own; one that is there is given to it with what jobs left."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if not folder.is_dir():
            raise
        give_folder(str(folder), uid, ids)
    else:
        give(folder, uid)


def give_folder(path: str, uid: int | None, ids: Container[int]) -> None:
    """Make a folder `uid`'s own with all in it that a user of `ids`, or the agent, has made.

    None leaves it as it is. Follows no link, and leaves what lies deeper than it walks.
    """
    if uid is None:
        return
    with opened(path) as top:
        if os.fstat(top).st_uid == uid:
            return
        for above, name in walk(top):
            with suppress(FileNotFoundError):
                _give_entry(above, name, uid, ids)
        # Last: an agent that ends before begins anew.
        os.fchown(top, uid, uid)


def _give_entry(above: int, name: str, uid: int, ids: Container[int]) -> None:
    """By descriptor, so that what was looked at is what is given."""
    held = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    try:
        status = os.fstat(held)
        # A file of the agent's user with a second name may have that one in /etc.
        is_alone = stat.S_ISDIR(status.st_mode) or status.st_nlink == 1
        if status.st_uid in ids or (status.st_uid == os.geteuid() and is_alone):
            os.chown(f"/proc/self/fd/{held}", uid, uid)
    finally:
        os.close(held)
