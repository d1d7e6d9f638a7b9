"""What becomes of a program that supervisord has given up on: it is started again, more and more
seldom, and everything else stays up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import time

from portal.embedded.places import Places, StackProblem
from portal.embedded.supervisor import Supervisor
from portal.fallen import note_fallen

# supervisord has tried for minutes by then, each time a second later.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 60.0, 900.0


@dataclass
class Tending:
    """Looks after the programs of one stack that is up; `tell` is what a person reads."""

    supervisor: Supervisor
    places: Places
    tell: Callable[[str], None]
    clock: Callable[[], float] = time
    _again_at: dict[str, float] = field(default_factory=dict)
    _pauses: dict[str, float] = field(default_factory=dict)

    def begin(self) -> None:
        """Forget what an earlier start left behind."""
        note_fallen(self.places.state, {})

    def look(self) -> None:
        """Start again who is due, and say who has fallen and who stays up again. Raises
        StackProblem where supervisord itself does not answer."""
        states, now = self.supervisor.states(), self.clock()
        before = dict(self._again_at)
        for name, state in states.items():
            if state == "FATAL":
                self._fallen(name, now)
            elif state == "RUNNING" and name in self._pauses and name not in self._again_at:
                del self._pauses[name]
                self.tell(f"{name} is up again")
        if before != self._again_at:
            note_fallen(self.places.state, self._again_at)

    def _fallen(self, name: str, now: float) -> None:
        if name not in self._again_at:
            pause_s = min(2 * self._pauses.get(name, FIRST_PAUSE_S / 2), LONGEST_PAUSE_S)
            self._pauses[name], self._again_at[name] = pause_s, now + pause_s
            self.tell(
                f"{name} does not stay up; see {self.places.logs / name}.log\n"
                f"  Everything else goes on; it is started again in {pause_s / 60:.0f} min."
            )
        elif now >= self._again_at[name]:
            del self._again_at[name]
            self.tell(f"starting {name} again")
            try:
                self.supervisor.start_program(name)
            except StackProblem as problem:
                # Such as a command that is gone: it is still given up, and comes here again.
                self.tell(str(problem))
