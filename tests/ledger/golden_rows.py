"""The golden month in the database, closed by the product: what pages, API and files must show.

The story and every expected figure are those of `golden.py`; nothing here is computed from them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

from accounts.models import Project, User
from accounts.services import approve_rate, propose_rate
from scheduler.ledger.entries import PLATFORM
from scheduler.ledger.segments import IN_SERVICE, partition
from scheduler.ledger.shares import IdlePolicy
from scheduler.models import Attempt, Device, DeviceSegment, GuaranteeSpan, Job, PeriodClose, Pool
from scheduler.services import books
from scheduler.services.books import approve_terms, set_share_policy
from scheduler.services.jobs import submit_job
from scheduler.services.nodes import create_pool, enrol_node, issue_node_token
from scheduler.spec import parse_spec
from scheduler.states import AttemptState, EndReason, JobState
from scheduler.wire.messages import DeviceFacts, EnrolRequest, HostFacts
from tests.ledger.golden import (
    ACCOUNTS,
    FEBRUARY,
    FLAVOURS,
    NOT_BILLABLE,
    PRICES,
    SPEECH,
    VISION,
    at,
    events,
)

MONTH = str(FEBRUARY)
# The teams of the story by the slugs of the personas.
SLUGS = {VISION: "vision", SPEECH: "speech", PLATFORM: "platform"}
# Who is guaranteed a card of what: all but speech on h100, which borrows it.
_GUARANTEED = ((VISION, "h100"), (SPEECH, "a100"), (VISION, "l40"), (SPEECH, "l40"))
AFTER = datetime(2026, 3, 2, 9, tzinfo=UTC)


def moment(second: int) -> datetime:
    """A second of the story."""
    return datetime.fromtimestamp(second, UTC)


def fill_golden(root: User, clerk: User, projects: dict[str, Project]) -> None:
    """Rows of the story; `projects` by the accounts of `golden.py`."""
    devices = {name: _device(root, clerk, name) for name in FLAVOURS}
    _prices(root, clerk)
    for number, (account, flavour) in enumerate(_GUARANTEED, 1):
        team = projects[account].team
        GuaranteeSpan.objects.create(
            team=team, flavour=flavour, gpus=1, from_s=FEBRUARY.start_s, quota=number
        )
    attempts = {name: _attempt(root, name, projects[ACCOUNTS[name]]) for name in ACCOUNTS}
    DeviceSegment.objects.bulk_create(
        DeviceSegment(
            device=devices[segment.device],
            pool=devices[segment.device].node.pool,
            flavour=FLAVOURS[segment.device],
            bucket=str(segment.bucket),
            attempt=attempts.get(segment.holder),
            project=attempts[segment.holder].job.project if segment.holder in attempts else None,
            cause="golden",
            start_s=segment.start_s,
            end_s=min(segment.end_s or FEBRUARY.end_s, FEBRUARY.end_s),
        )
        for segment in partition(events())
        if segment.bucket in IN_SERVICE and segment.start_s < FEBRUARY.end_s
    )
    adjustment = books.propose_adjustment(
        actor=clerk,
        project=projects[VISION],
        amount=Decimal("-5.005"),
        reason="the new driver cost a day",
        now=moment(at("20")),
    )
    books.post_adjustment(actor=root, adjustment=adjustment, now=moment(at("21")))


def close_golden(root: User) -> PeriodClose:
    """February as the product closes it."""
    return books.close_period(actor=root, period=MONTH, now=AFTER)


def lose_a3() -> None:
    """What turns out after the close: a3's card had failed."""
    Attempt.objects.filter(job__name="a3").update(end_reason=EndReason.DEVICE_FAILED)


def _device(root: User, clerk: User, name: str) -> Device:
    """A card in a pool of its own, enrolled when the month ends; its time before is the story's."""
    pool: Pool = create_pool(actor=root, name=FLAVOURS[name])
    if name == "l0":
        terms = set_share_policy(actor=clerk, pool=pool, idle=IdlePolicy.BY_USE)
        approve_terms(actor=root, terms=terms)
    now = moment(FEBRUARY.end_s)
    _, secret = issue_node_token(actor=root, pool=pool, now=now)
    card = DeviceFacts(
        uuid=f"GPU-SIM-{name}", index=0, model=FLAVOURS[name], memory_mib=81_920, simulated=True
    )
    enrol_node(
        request=EnrolRequest(
            token=secret,
            name=name,
            protocol=1,
            agent_version="0.1.0",
            boot_id="boot-1",
            host=HostFacts(cpus=16, memory_mib=65_536, scratch_mib=100_000, address="127.0.0.1"),
            devices=(card,),
        ),
        now=now,
    )
    return Device.objects.select_related("node__pool").get(node__name=name)


def _prices(root: User, clerk: User) -> None:
    for price in PRICES:
        rate = propose_rate(
            actor=clerk,
            device_model=price.flavour,
            kind=price.kind,
            price_per_gpu_hour=price.per_gpu_hour,
            currency=price.currency,
            valid_from=moment(price.from_s),
            restate=True,
            reason="golden",
        )
        approve_rate(actor=root, rate=rate)


def _attempt(root: User, name: str, project: Project) -> Attempt:
    pool = {"a4": "a100", "a5": "a100", "a6": "l40", "a7": "l40"}.get(name, "h100")
    document = {"name": name, "project": project.path, "script": "echo hi", "pool": pool}
    job = submit_job(actor=root, spec=parse_spec(document), now=moment(at("1"))).job
    Job.objects.filter(pk=job.pk).update(state=JobState.SUCCEEDED, started_at=moment(at("1")))
    reason = EndReason.NODE_LOST if name in NOT_BILLABLE else EndReason.COMPLETED
    return Attempt.objects.create(
        job=job,
        number=1,
        state=AttemptState.ENDED,
        assigned_at=moment(at("1")),
        ended_at=moment(at("28")),
        released_at=moment(at("28")),
        end_reason=reason,
    )
