"""What a row of an export is made from, beside its line or entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from scheduler.ledger.periods import Month
from scheduler.ledger.rating import ChargeKind

Row = dict[str, str | None]


@dataclass(frozen=True, slots=True)
class Issuer:
    """Who writes the export, about which month; `status` is its state, `dataset` its close.

    `memory_gib`: of models of GPUs, where it is known and all of a model have as much.
    """

    month: Month
    currency: str
    account_id: str
    account_name: str
    cluster: str
    status: str
    version: str
    charging: str = "showback"
    dataset: int = 1
    memory_gib: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Owner:
    """The names behind a line's account and attempt as of then; empty where there are none.

    `queued_s`: the wait for the first nodes, of a job's first attempt alone; `zone`: the rack, if
    it is one; `reservation`: whose booked nodes it ran on.
    """

    team_id: str = ""
    team_name: str = ""
    project_id: str = ""
    project_name: str = ""
    job_id: str = ""
    job_name: str = ""
    attempt_number: int = 0
    pseudonym: str = ""
    tags: Mapping[str, str] | None = None
    gpus: int = 0
    queued_s: int | None = None
    zone: str = ""
    reservation: str = ""
    resource: str = "GPU Job"
    cost_centre: str = ""


@dataclass(frozen=True, slots=True)
class Allocation:
    """A line's part of a shared charge: whose, how much of 1 in all, the method by kind of line."""

    pool_name: str
    ratio: Decimal
    methods: Mapping[ChargeKind, str]


# What is shared at a time: holder, pool, flavour, day. Its lines differ by account.
Origin = tuple[str, str, str, int]


@dataclass(frozen=True, slots=True)
class Booked:
    """Where a line or entry was booked: statement number, entry number and its hash.

    `corrects`: the number of the entry that a correction puts right, where one had been booked.
    """

    invoice: str = ""
    entry: int = 0
    hash: str = ""
    corrects: int = 0
