"""Whether regular tasks run in time; and how well something is, in a word and a colour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from portal.beats import BEGAN, Run

CLOCK_SLACK = timedelta(minutes=1)


class Tone(StrEnum):
    """Green, grey, amber, red; the word that is shown beside the colour."""

    GOOD = "good"
    UNKNOWN = "unknown"
    LOOK = "look"
    BAD = "bad"

    @property
    def word(self) -> str:
        """As the page says it."""
        return _TONES[self]


_TONES = {
    Tone.GOOD: "good",
    Tone.UNKNOWN: "not checked yet",
    Tone.LOOK: "worth a look",
    Tone.BAD: "needs a hand",
}


@dataclass(frozen=True, slots=True)
class Task:
    """A regular task: every so many seconds, and the end of its last run."""

    name: str
    every_s: float
    run: Run | None
    tone: Tone
    words: str


def regular_tasks(
    every_s: Mapping[str, float], runs: Mapping[str, Run] | None, now: datetime
) -> Iterator[Task]:
    """Each task with how late it is: two more turns than its own are still good."""
    began = (runs or {}).get(BEGAN)
    for name, seconds in every_s.items():
        run = (runs or {}).get(name)
        short = name.rpartition(".")[2].replace("_", " ")
        if runs is None:
            yield Task(short, seconds, None, Tone.LOOK, "not known without the broker")
        elif run is None and began is not None and now - began.at <= _patience(seconds):
            yield Task(short, seconds, None, Tone.UNKNOWN, "not due yet")
        elif run is None:
            yield Task(short, seconds, None, Tone.LOOK, "has not run since the broker began")
        elif not run.succeeded:
            yield Task(short, seconds, run, Tone.BAD, "failed; the worker's log says why")
        elif run.at - now > CLOCK_SLACK:
            yield Task(short, seconds, run, Tone.LOOK, "late: the clock was put back")
        elif now - run.at > _patience(seconds):
            yield Task(short, seconds, run, Tone.LOOK, "late")
        else:
            yield Task(short, seconds, run, Tone.GOOD, "in time")


def _patience(every_s: float) -> timedelta:
    return timedelta(seconds=3 * every_s + 60)
