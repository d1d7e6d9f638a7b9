"""When which fault strikes: a shuffled bag of all kinds, again and again, some at a time.

Who has hit less often than there were bags is in the next one more than once, so that no kind
falls far behind: some find nobody to hit most of the time. And it comes first there: the bag that
the end cuts off lacks those that have hit most. Where all of them are behind, pauses are shorter.
"""

from __future__ import annotations

import copy
import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence

from portal.torture.faults import FAULTS, Fault, Hand
from portal.torture.history import Diary

logger = logging.getLogger(__name__)
# One or two of them sleep for most of a minute, and some look for somebody in vain.
AT_ONCE = 10
# So often at most a kind that is behind comes in a bag beside its usual turn.
MOST_MORE = 3
# What is left of a pause while kinds are behind.
HURRIED = 0.25


class Storm:
    """Threads that strike until `over`. Each kind comes equally often; the dice choose when.

    Threads meet as the machine has it, so none draws from another one's dice: the bags, each
    thread's pauses and each strike of a kind have dice of their own, all from the hand's.
    `every_s`: so often at least each kind should hit; 0: as it comes.
    """

    def __init__(
        self,
        hand: Hand,
        diary: Diary,
        kinds: Sequence[str],
        pause_s: float,
        *,
        first: Sequence[str] = (),
        every_s: float = 0.0,
    ) -> None:
        self.hand, self.diary, self.pause_s = hand, diary, pause_s
        self.kinds, self.every_s = list(kinds), every_s
        self._began = time.monotonic()
        self._seed = hand.dice.random()
        self._dice = random.Random(self._seed)
        self._tries: Counter[str] = Counter()
        self._bag = list(first)
        self._bags = 0
        self._hit: Counter[str] = Counter()
        self._busy: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._strike, args=(number,), daemon=True)
            for number in range(AT_ONCE)
        ]

    @property
    def hits(self) -> int:
        """Faults that hit somebody."""
        return self._hit.total()

    def start(self) -> None:
        """Let it break loose."""
        self._began = time.monotonic()
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Wait until the last fault has been undone."""
        for thread in self._threads:
            thread.join(120)

    def _draw(self) -> Fault | None:
        with self._lock:
            fault = self._take()
            if fault is None and len(self._bag) < len(self.kinds):
                # What is left waits for others of its sort to end, and nobody waits for that.
                self._fill()
                fault = self._take()
        return fault

    def _take(self) -> Fault | None:
        """The first of the bag that may strike beside those that do."""
        for index, name in enumerate(self._bag):
            fault = FAULTS[name]
            if not fault.exclusive or self._busy[fault.exclusive] < fault.at_once:
                self._busy[fault.exclusive] += 1
                self._bag.pop(index)
                return fault
        return None

    def _fill(self) -> None:
        """Another bag; of those that are left over none comes again for having hit too seldom."""
        left = Counter(self._bag)
        more = [
            name
            for name in self.kinds
            for _ in range(1 + max(0, min(MOST_MORE, self._bags - self._hit[name] - left[name])))
        ]
        self._bag, self._bags = self._bag + self._in_order(more), self._bags + 1

    def _in_order(self, kinds: Sequence[str]) -> list[str]:
        """Shuffled, who has hit least first; each further time of a kind counts as one hit more."""
        times = Counter(self._hit)
        ranked = []
        for name in self._dice.sample(kinds, len(kinds)):
            ranked.append((times[name], name))
            times[name] += 1
        return [name for _, name in sorted(ranked, key=lambda one: one[0])]

    def _hand_for(self, fault: Fault) -> Hand:
        """The hand, with dice for this strike alone."""
        with self._lock:
            self._tries[fault.name] += 1
            number = self._tries[fault.name]
        mine = copy.copy(self.hand)
        mine.dice = random.Random(f"{self._seed}-{fault.name}-{number}")
        return mine

    def _rest_s(self, share: float) -> float:
        """A thread's pause, this share of the usual; shorter while kinds hit too seldom.

        All of them together count: one that finds nobody is not helped by haste.
        """
        rest_s = share * self.pause_s * AT_ONCE
        if not self.every_s:
            return rest_s
        wanted = (time.monotonic() - self._began) / self.every_s
        with self._lock:
            missing = sum(max(0.0, wanted - self._hit[name]) for name in self.kinds)
        return rest_s * HURRIED if missing > len(self.kinds) else rest_s

    def _strike(self, number: int) -> None:
        over, pauses = self.hand.over, random.Random(f"{self._seed}-{number}")
        while not over.wait(self._rest_s(pauses.uniform(0.5, 1.5))):
            fault = self._draw()
            if fault is None:
                continue
            at, target = time.time(), ""
            try:
                target = fault.inflict(self._hand_for(fault))
            except Exception:
                logger.exception("fault %s could not be inflicted", fault.name)
            finally:
                with self._lock:
                    self._busy[fault.exclusive] -= 1
                    self._hit[fault.name] += bool(target)
            if target:
                facts = {"name": fault.name, "number": fault.number, "target": target}
                self.diary.note("fault", at=at, until=time.time(), **facts)
