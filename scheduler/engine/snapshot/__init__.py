"""What the engine sees: columns, one row per node, device, placement and waiting job.

Rows refer to each other by row number, never by id; ids are only carried through to the plan.
Times are seconds since 1970, sizes MiB. -1 stands for "none".
"""

from scheduler.engine.snapshot.accounts import ANY_AMOUNT, Accounts, Limits
from scheduler.engine.snapshot.calendar import (
    BookedNodes,
    Bookings,
    Headroom,
    Promises,
    Windows,
)
from scheduler.engine.snapshot.claims import Claims
from scheduler.engine.snapshot.cluster import (
    ISOLATIONS,
    NODE_STATES,
    Devices,
    Held,
    Nodes,
    Slices,
    Tokens,
)
from scheduler.engine.snapshot.columns import (
    NONE,
    WHOLE_MILLI,
    Flags,
    Floats,
    Ints,
    SnapshotInvalid,
    Table,
    flags,
    floats,
    ints,
    rows_by_group,
    running_sum,
    sorted_groups,
    stable_order,
)
from scheduler.engine.snapshot.jobs import (
    SPREADS,
    TOPOLOGIES,
    Classes,
    Demand,
    Request,
    Running,
    Waiting,
    classes_of,
    of_any_queue,
)
from scheduler.engine.snapshot.whole import Snapshot

__all__ = [
    "ANY_AMOUNT",
    "ISOLATIONS",
    "NODE_STATES",
    "NONE",
    "SPREADS",
    "TOPOLOGIES",
    "WHOLE_MILLI",
    "Accounts",
    "BookedNodes",
    "Bookings",
    "Claims",
    "Classes",
    "Demand",
    "Devices",
    "Flags",
    "Floats",
    "Headroom",
    "Held",
    "Ints",
    "Limits",
    "Nodes",
    "Promises",
    "Request",
    "Running",
    "Slices",
    "Snapshot",
    "SnapshotInvalid",
    "Table",
    "Tokens",
    "Waiting",
    "Windows",
    "classes_of",
    "flags",
    "floats",
    "ints",
    "of_any_queue",
    "rows_by_group",
    "running_sum",
    "sorted_groups",
    "stable_order",
]
