"""What is wrong with this node and its devices: noticed, remembered, tried out, told."""

from __future__ import annotations

import json
import logging
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from scheduler.agent.gpus import Fault, Gpus
from scheduler.agent.node.host import free_mib
from scheduler.states import TROUBLE_RULES, Trouble, trouble_of
from scheduler.wire.messages import DeviceCheck, TroubleReport

_CHECK_S = 120.0
# Goes on being shown until the card is reset: only more of it is new.
_COUNTED = Trouble.ECC

logger = logging.getLogger(__name__)


class TroubleWatch:
    """All that is wrong now. Thread-safe.

    What is sticky is kept in `file` for as long as the host is not started again, so that an
    agent that was restarted does not forget an error that the driver tells once. So are counts that
    a card had when it passed a check.
    """

    def __init__(
        self, file: Path, gpus: Gpus, *, boot_id: str, folders: Iterable[Path], min_free_mib: int
    ) -> None:
        self._file = file
        self._gpus = gpus
        self._boot_id = boot_id
        self._folders = tuple(folders)
        self._min_free_mib = min_free_mib
        self._lock = threading.Lock()
        self._found: dict[tuple[str, Trouble], TroubleReport] = {}
        # By UUID, as the card says it: its count now, and when it passed its check.
        self._counts: dict[str, str] = {}
        self._passed: dict[str, str] = {}
        self._recall()
        # By UUID of a card that a check is at work on: what stood against it before.
        self._tried: dict[str, tuple[TroubleReport, ...]] = {}

    def look(self, holders: Mapping[str, int]) -> None:
        """Notice what is wrong now; `holders` maps UUIDs to the fence that has the device."""
        with self._lock:
            tried = set(self._tried)
        # Whoever asks what is known already must not wait for the driver.
        faults = self._gpus.faults({*holders, *tried})
        with self._lock:
            self._counts = {one.uuid: one.detail for one in faults if one.kind is _COUNTED}
            # None any more: the driver was loaded anew.
            self._passed = {u: count for u, count in self._passed.items() if u in self._counts}
            shown = {(one.uuid, one.kind): one for one in faults if not self._is_settled(one)}
            if (room := min(map(free_mib, self._folders))) < self._min_free_mib:
                shown["", Trouble.DISK_FULL] = Fault("", Trouble.DISK_FULL, f"{room} MiB are left")
            for key in [key for key in self._found if key not in shown]:
                if not TROUBLE_RULES[key[1]].is_sticky and key[0] not in self._tried:
                    del self._found[key]
            fresh = [key for key, fault in shown.items() if self._is_fresh(fault)]
            for uuid, kind in fresh:
                detail = shown[uuid, kind].detail
                logger.error("%s: %s (%s)", uuid or "this node", kind, detail)
                self._found[uuid, kind] = TroubleReport(
                    str(kind), uuid, detail[:500], time.time(), holders.get(uuid)
                )
            if fresh:
                self._keep()

    def _is_settled(self, fault: Fault) -> bool:
        """Whether a check that began meanwhile uses it, or has passed in spite of that count."""
        if fault.kind is Trouble.NOT_RELEASED:
            return fault.uuid in self._tried
        return fault.kind is _COUNTED and self._passed.get(fault.uuid) == fault.detail

    def _is_fresh(self, fault: Fault) -> bool:
        known = self._found.get((fault.uuid, fault.kind))
        has_more = fault.kind is _COUNTED and known is not None and known.detail != fault.detail
        return fault.is_new or known is None or has_more

    @contextmanager
    def trying(self, uuid: str) -> Iterator[None]:
        """A check is at work on the device in the block: what it uses there is not left behind."""
        with self._lock:
            self._tried[uuid] = self._against(uuid)
        try:
            yield
        finally:
            with self._lock:
                self._tried.pop(uuid, None)

    def all(self) -> tuple[TroubleReport, ...]:
        """Everything that is wrong."""
        with self._lock:
            return tuple(self._found[key] for key in sorted(self._found))

    def blame(self, uuids: Collection[str], fence: int, since: float) -> str:
        """Why a program failed on these devices, if they are to blame; else "".

        They are if they broke while `fence` held them, or after `since`, when it was started.
        """
        with self._lock:
            for (uuid, kind), report in sorted(self._found.items()):
                rule = TROUBLE_RULES[kind]
                is_his = report.fence == fence or report.since >= since
                if uuid in uuids and rule.breaks_programs and is_his:
                    return f"GPU {uuid}: {rule.words} ({report.detail})"
        return ""

    def is_in_use(self, uuids: Collection[str]) -> bool:
        """Whether any of these devices has processes or memory though nobody holds it."""
        with self._lock:
            return any((uuid, Trouble.NOT_RELEASED) in self._found for uuid in uuids)

    def clear(self, uuid: str) -> str:
        """The device passed its check: what stood against it is over.

        What was noticed only while the check was at work is not: it is returned in words, and
        nothing is cleared.
        """
        with self._lock:
            before = self._tried.get(uuid)
            now = self._against(uuid)
            fresh = [one for one in now if before is not None and one not in before]
            if fresh:
                return "; ".join(f"{trouble_of(one.kind)}: {one.detail}" for one in fresh)
            for one in now:
                del self._found[uuid, trouble_of(one.kind)]
            if uuid in self._counts:
                self._passed[uuid] = self._counts[uuid]
            self._keep()
        return ""

    def _against(self, uuid: str) -> tuple[TroubleReport, ...]:
        return tuple(report for key, report in self._found.items() if key[0] == uuid)

    def _keep(self) -> None:
        kept = [asdict(r) for (_, kind), r in self._found.items() if TROUBLE_RULES[kind].is_sticky]
        with suppress(OSError):  # a full disk is told, not died of
            fresh = self._file.with_suffix(".new")
            told = {"boot_id": self._boot_id, "troubles": kept, "passed": self._passed}
            fresh.write_text(json.dumps(told))
            fresh.replace(self._file)

    def _recall(self) -> None:
        with suppress(OSError, ValueError, KeyError, TypeError):
            told = json.loads(self._file.read_text())
            if told["boot_id"] != self._boot_id:
                return
            reports = [TroubleReport(**one) for one in told["troubles"]]
            self._passed = dict(told.get("passed", {}))
            self._found = {(report.uuid, trouble_of(report.kind)): report for report in reports}


class Checks:
    """Tries out devices that the server asks for, one process each; `on_result` wakes the agent."""

    def __init__(self, gpus: Gpus, watch: TroubleWatch, on_result: Callable[[], None]) -> None:
        self._gpus = gpus
        self._watch = watch
        self._on_result = on_result
        self._lock = threading.Lock()
        self._running: set[str] = set()
        self._results: dict[str, DeviceCheck] = {}

    def want(self, uuids: Collection[str]) -> None:
        """Begin what is asked for and not done; drop the results that are no longer asked for."""
        with self._lock:
            self._results = {u: result for u, result in self._results.items() if u in uuids}
            begin = [u for u in uuids if u not in self._running and u not in self._results]
            self._running.update(begin)
        for uuid in begin:
            threading.Thread(target=self._try_out, args=(uuid,), daemon=True).start()

    def results(self) -> tuple[DeviceCheck, ...]:
        """What is known and not yet taken in by the server."""
        with self._lock:
            return tuple(self._results.values())

    def _try_out(self, uuid: str) -> None:
        try:
            with self._watch.trying(uuid):
                done = subprocess.run(
                    self._gpus.check_command(uuid),
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=_CHECK_S,
                    check=False,
                )
                passed, detail = done.returncode == 0, done.stderr.strip()[-500:]
                if passed and (fresh := self._watch.clear(uuid)):
                    passed, detail = False, f"while it was checked: {fresh}"[:500]
        except (OSError, subprocess.TimeoutExpired) as problem:
            passed, detail = False, f"{problem}"[:500]
        logger.info("check of %s: %s %s", uuid, "passed" if passed else "failed", detail)
        with self._lock:
            self._running.discard(uuid)
            self._results[uuid] = DeviceCheck(uuid, passed, detail)
        self._on_result()
