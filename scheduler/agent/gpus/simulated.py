"""Devices that do not exist, behind the same face; called simulated wherever they are shown."""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from scheduler.agent.gpus.face import Fault, GpuProblem, Holding
from scheduler.agent.gpus.mig import mig_model, part_of
from scheduler.states import Trouble, trouble_of
from scheduler.wire.messages import DeviceFacts
from scheduler.wire.readings import DeviceSample

_AMBIENT_C = 31.0
_WARMING_S = 40.0
# Of compute, that MIG divides a card into.
_SLICES = 7
# Memory in MiB and board power in watts of models that are often simulated.
_KNOWN_MODELS = {
    "NVIDIA H200": (143_771, 700.0),
    "NVIDIA H100 80GB HBM3": (81_559, 700.0),
    "NVIDIA A100-SXM4-80GB": (81_920, 400.0),
    "NVIDIA A100-SXM4-40GB": (40_960, 400.0),
    "NVIDIA L40S": (46_068, 350.0),
    "NVIDIA L4": (23_034, 72.0),
    "Tesla T4": (15_360, 70.0),
}


class SimulatedGpus:
    """Devices that do not exist, flagged as such; their readings follow the job's real work."""

    driver = "simulated"

    def __init__(self, node_name: str, count: int, model: str, faults: Path | None = None) -> None:
        """`faults`: the file of faults; `simulated-mig.json` beside it cuts cards into instances,
        `{"0": ["3g.40gb", "4g.40gb"]}`."""
        self._fault_file = faults
        self._memory_mib, self._board_watts = _KNOWN_MODELS.get(model, (81_559, 500.0))
        cut = _told(faults.with_name("simulated-mig.json") if faults else None)
        self._facts = tuple(
            facts
            for index in range(count)
            for facts in _card(node_name, index, model, self._memory_mib, cut.get(str(index), ()))
        )

    def inventory(self) -> tuple[DeviceFacts, ...]:
        """The devices, the same on every start of a node of this name."""
        return self._facts

    def sample(self, holders: Mapping[str, Holding]) -> tuple[DeviceSample, ...]:
        """Readings as a card would show them under the load its holder's processors have."""
        now, told = time.time(), _told(self._fault_file)
        return tuple(
            self._reading(facts, holders.get(facts.uuid), now, told) for facts in self._facts
        )

    def faults(self, held: Collection[str]) -> tuple[Fault, ...]:
        """What the file of simulated faults says, `{"0": {"kind": "hot", "detail": "95 C"}}`.

        Memory that leaked, `{"0": {"leaked_mib": 2048}}`, is one once nobody holds the card. What
        slows a card down, `{"0": {"slowed_by": "heat"}}` or `"power"`, is none.
        """
        told = _told(self._fault_file)
        found = []
        for facts in self._facts:
            fault = told.get(str(facts.index))
            if fault is None or facts.parent or fault.keys() == {"slowed_by"}:
                continue
            kind, words = trouble_of(fault.get("kind", "")), fault.get("detail", "")
            if leaked_mib := fault.get("leaked_mib"):
                if facts.uuid in held:
                    continue
                kind, words = Trouble.NOT_RELEASED, f"{leaked_mib} MiB of its memory are taken"
            found.append(Fault(facts.uuid, kind, f"{words} (simulated)"))
        return tuple(found)

    def device_files(self, uuids: Collection[str]) -> tuple[str, ...]:
        """None: there is no card behind them."""
        return ()

    def check_command(self, uuid: str) -> tuple[str, ...]:
        """Ends well unless the file of simulated faults names the device."""
        return ("false",) if any(fault.uuid == uuid for fault in self.faults(())) else ("true",)

    def _reading(
        self, facts: DeviceFacts, holder: Holding | None, now: float, told: Mapping[str, Any]
    ) -> DeviceSample:
        load = warmth = 0.0
        if holder is not None:
            load = min(1.0, holder.busy_cores) * (0.94 + 0.05 * math.sin(now / 7 + facts.index))
            warmth = 1 - math.exp(-holder.held_s / _WARMING_S)
        used = 0.005 + (0.1 + 0.55 * warmth if holder else 0.0)
        mine = told.get(str(facts.index), {})
        leaked, slowed_by = mine.get("leaked_mib", 0), mine.get("slowed_by")
        return DeviceSample(
            uuid=facts.uuid,
            at=now,
            gpu_percent=round(100 * load, 1),
            memory_used_mib=min(facts.memory_mib, int(facts.memory_mib * used) + leaked),
            power_watts=round(self._board_watts * (0.1 + 0.8 * load), 1),
            temperature_c=round(_AMBIENT_C + 38 * load * warmth, 1),
            fence=holder.fence if holder else None,
            slowed_by_heat=slowed_by == "heat",
            slowed_by_power=slowed_by == "power",
        )


def _told(file: Path | None) -> dict[str, Any]:
    """What a file of the operator says, by the index of the card; nothing without one."""
    if file is not None:
        with suppress(FileNotFoundError, ValueError):
            told = json.loads(file.read_text())
            return told if isinstance(told, dict) else {}
    return {}


def _card(
    node_name: str, index: int, model: str, memory_mib: int, profiles: Iterable[str]
) -> Iterator[DeviceFacts]:
    """The card, and its instances if it is in any."""
    uuid = _simulated_uuid(node_name, index)
    yield DeviceFacts(uuid, index, model, memory_mib, simulated=True)
    for place, profile in enumerate(profiles):
        slices = _slices(profile)
        yield DeviceFacts(
            uuid=f"MIG-SIM-{_simulated_uuid(node_name, index * 100 + place)[8:]}",
            index=index,
            model=mig_model(model, profile),
            memory_mib=memory_mib * min(slices, _SLICES) // _SLICES,
            simulated=True,
            parent=uuid,
            milli=part_of(slices, _SLICES),
        )


def _slices(profile: object) -> int:
    found = re.fullmatch(r"([1-7])g\.\d{1,3}gb", str(profile))
    if found is None:
        raise GpuProblem(
            f"simulated-mig.json asks for {profile!r}; write profiles such as 1g.10gb or 3g.40gb."
        )
    return int(found[1])


def _simulated_uuid(node_name: str, index: int) -> str:
    mark = hashlib.sha256(f"{node_name}/{index}".encode()).hexdigest()
    return f"GPU-SIM-{mark[:8]}-{mark[8:12]}-{mark[12:16]}-{mark[16:20]}-{mark[20:32]}"
