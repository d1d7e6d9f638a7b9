"""What a rank prints, and how much of it its node knows to be stored."""

from __future__ import annotations

from dataclasses import dataclass

from portal.torture.invariants.logs import line_of

_LINE_S, _MOST = 10.0, 12


@dataclass
class Stream:
    """Lines of the form that the checker of the torture writes itself; `owner`: job, fence, rank.

    `acked`: what the node believes to be stored.
    """

    owner: tuple[int, int, int]
    count: int = 0
    acked: int = 0

    def grow(self, ran_s: float) -> None:
        """As many lines as a program has printed that has run for so long."""
        self.count = max(self.count, min(_MOST, 1 + int(ran_s // _LINE_S)))

    def body(self) -> bytes:
        """All that was printed."""
        lines = (line_of(*self.owner, number) for number in range(1, self.count + 1))
        return "".join(f"{line}\n" for line in lines).encode()

    @property
    def has_more(self) -> bool:
        """Whether something is to be shipped."""
        return self.acked < len(self.body())


@dataclass(frozen=True)
class Chunk:
    """A part of a stream under way."""

    fence: int
    rank: int
    offset: int
    body: bytes
