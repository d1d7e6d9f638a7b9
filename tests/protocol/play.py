"""No job lost, none run twice, no device held twice: whatever messages, nodes and time do."""

from __future__ import annotations

from typing import Any

from hypothesis.stateful import invariant

from portal.torture.history import Evidence
from portal.torture.invariants import INVARIANTS
from portal.torture.invariants.rows import TABLES
from scheduler.conf import load_conf
from scheduler.invariants.rows import Row
from scheduler.models import Job
from tests.protocol.gangs import Gangs
from tests.protocol.lives import apart, grouped
from tests.protocol.nodes import Life, moment_of
from tests.protocol.pieces import pieces_of
from tests.protocol.tables import read_whole

# What the checker of the torture can be asked in the middle of everything.
ALWAYS = "I1 I2 I3 I4 I5 I6 I7 I9 I10 I14 I15 I17 I18 I20 I22 I28".split()
AT_THE_END = [*ALWAYS, "I8", "I11", "I12", "I16", "I26"]
# What these need; the other tables are read at the end.
_MOVING = (
    *"job attempt placement allocation device node devicesegment usageentry".split(),
    *"jobevent nodeevent logchunk submitkey".split(),
)


class Cluster(Gangs):
    """All of it, and what has to hold after every step."""

    def evidence(self, tables: dict[str, list[Row]]) -> Evidence:
        """The history and the rows, as the checker of the torture reads them."""
        facts = [*self.facts, {"kind": "fault", "number": 12, "name": "clocks", "at": 0.0}]
        facts += [{"kind": "heard", "node": name, "times": t} for name, t in self.heard.items()]
        for life in self.lives:
            facts += _told(life)
        conf = load_conf()
        rules = {
            "ended_at": moment_of(self.now),
            "lost_after_s": conf.lost_after.total_seconds(),
            # How long an end takes is the node's matter here; that it comes is asked.
            "stop_within_s": float("inf"),
            # Here a scheduler decides when the history calls it, and not by itself.
            "starts_within_s": float("inf"),
            "time_limit_s": 90.0,
        }
        return Evidence(facts, tables, pieces_of(tables["logchunk"]), rules)

    def check(self, names: list[str]) -> None:
        """Raise with the words of the first break."""
        evidence = self.evidence(read_whole(_MOVING if names is ALWAYS else TABLES))
        for name in names:
            broken = [words for words in INVARIANTS[name](evidence) if words]
            assert not broken, f"{name}: {broken[0]}"

    @invariant()
    def the_checker_finds_nothing(self) -> None:
        self.check(ALWAYS)

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        assert set(Job.objects.values_list("pk", flat=True)) == set(self.accepted.values())

    @invariant()
    def nobody_runs_beside_its_own_or_on_anothers_device(self) -> None:
        for group in grouped(self.lives, lambda life: [life.job]):
            apart(group)
        for group in grouped(self.lives, lambda life: life.devices):
            apart(group)

    @invariant()
    def what_is_acknowledged_is_stored_and_what_is_offered_was_confirmed(self) -> None:
        for node in self.nodes:
            sizes = dict(node.row.placements.values_list("attempt_id", "log_size"))
            for fence, slot in node.slots.items():
                assert slot.stream.acked <= sizes[fence]
                for offer in slot.saved.offers:
                    assert offer.path.startswith(f"/shared/{slot.order.job_id}/"), offer
                    assert offer.path in self.files, offer


def _told(life: Life) -> list[dict[str, Any]]:
    """What a program of the torture would have written down."""
    place = {"job": life.job, "fence": life.fence, "rank": life.rank}
    facts = [{"kind": "start", "at": moment_of(life.since), "devices": life.devices, **place}]
    if life.until is None:
        busy = [f"gpu-{uuid}" for uuid in life.devices]
        return facts + [{"kind": "left", "at": 0.0, "what": what} for what in busy]
    until = moment_of(life.until)
    facts.append({"kind": "exit", "at": until, "code": life.code, **place})
    facts.append({"kind": "lines", "at": until, "count": life.stream.count, **place})
    return facts
