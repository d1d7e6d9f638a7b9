"""Carries the demonstration out, beside whatever is running: for the command and for the page.

The scheduler's lease is taken for the moment, so nobody schedules in a past that is being told, and
everything is one transaction, so nobody sees half of it and a killed process leaves nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from django.db import DatabaseError, transaction
from django.utils import timezone

from accounts.errors import DomainError
from accounts.models import DemoAct, DemoOrder, User
from portal.beats import clear_progress, note_progress
from portal.management.demo import seeding
from scheduler.loop.lease import Lease, has_ended, own_name, release_lease, renew_lease, take_lease
from scheduler.services.demo.marking import heads_now, note_before, note_made, refuse_seeding
from scheduler.services.demo.ordering import claim_order, end_order, give_order_back
from scheduler.services.demo.removing import remove_demo
from scheduler.services.errors import Conflict
from scheduler.services.timeline.wasted_days import sum_again

logger = logging.getLogger(__name__)

SEED = 1
Tell = Callable[[str], object]


@dataclass
class Keeper:
    """Keeps the scheduler's lease while the past is told."""

    lease: Lease
    count: int = 0

    def token(self) -> int:
        """The lease's token, after renewing it where that is due."""
        kept = renew_lease(self.lease, now=timezone.now())
        if kept is None:
            raise Conflict("A scheduler has started meanwhile; nothing was kept.")
        self.lease = kept
        self.count += 1
        return kept.token

    def hold(self) -> None:
        """Lock the lease's row for the rest of the transaction: until then nobody takes it, however
        long one step of the story lasts."""
        self.lease = replace(self.lease, expires_at=timezone.now())
        self.token()


@contextmanager
def scheduler_resting() -> Iterator[Keeper]:
    """Whoever schedules waits meanwhile, and goes on at once afterwards."""
    keeper = Keeper(take_lease(own_name(), now=timezone.now()))
    try:
        with transaction.atomic():
            keeper.hold()
            yield keeper
    finally:
        release_lease(keeper.lease, now=timezone.now())


def load(
    actor: User,
    *,
    seed: int,
    jobs: int,
    is_told: bool,
    tell: Tell,
    end: Callable[[seeding.Demo], object] = lambda _: None,
    with_passwords: bool = True,
) -> seeding.Demo:
    """All of it or nothing; raises Conflict where it may not be, says what it does by `tell`.

    `end` is called in the transaction, when everything is there.
    """
    now = timezone.now().astimezone(UTC)
    closes = seeding.months_of(now)[:2]
    refuse_seeding(closes=closes, is_told=is_told)
    heads = heads_now()
    with scheduler_resting() as keeper:
        refuse_seeding(closes=closes, is_told=is_told)
        mark = note_before(seed=seed, now=now, heads=heads)

        def renew() -> int:
            token = keeper.token()
            if keeper.count % 20 == 0:
                tell(f"job {keeper.count} of {jobs}")
            return token

        made = seeding.seed(
            actor,
            seed=seed,
            jobs=jobs,
            now=now,
            renew=renew,
            tell=tell,
            with_passwords=with_passwords,
        )
        note_made(mark, made.roots())
        # Its past came day by day, while somebody may have summed days.
        sum_again()
        end(made)
    return made


def tend_demo(*, now: datetime, jobs: int = seeding.JOBS) -> int:
    """Do what an administrator asked for on the page, if nobody else does; how much was done."""
    order = claim_order(own_name(), has_ended=has_ended, now=now)
    if order is None:
        return 0
    try:
        if order.act == DemoAct.LOAD:
            _load(order, jobs)
        else:
            _remove(order)
    except DomainError as refused:
        _refuse(order, refused.detail)
    except DatabaseError:
        # Somebody wrote what was being removed, or the database went away: tried again.
        logger.warning("the demonstration broke off", exc_info=True)
        give_order_back(order)
        return 0
    except Exception:
        logger.exception("the demonstration failed")
        _refuse(order, "It could not be done: our fault, and noted. Nothing was changed.")
    finally:
        clear_progress()
    return 1


def _load(order: DemoOrder, jobs: int) -> None:
    actor = order.asked_by
    if actor is None:
        raise Conflict("Who asked for it is no longer here.")

    def end(made: seeding.Demo) -> None:
        says = f"{len(made.users)} people, {len(made.teams)} teams and {len(made.nodes)} nodes."
        end_order(order, says, now=timezone.now())

    load(
        actor,
        seed=SEED,
        jobs=jobs,
        is_told=order.is_beside,
        tell=note_progress,
        end=end,
        with_passwords=False,
    )


def _remove(order: DemoOrder) -> None:
    note_progress("removing")
    with scheduler_resting():
        removed = remove_demo(by=order.asked_by)
        says = f"{removed.rows:,} rows were removed; 0 are left."
        if removed.kept_events:
            says += (
                f" {removed.kept_events:,} events of the audit stay, for others have changed "
                "things since and the audit does not lose its middle."
            )
        end_order(order, says, rows=removed.rows, now=timezone.now())


def _refuse(order: DemoOrder, says: str) -> None:
    try:
        end_order(order, says, is_refused=True, now=timezone.now())
    except Conflict:
        logger.info("another worker has taken the demonstration up")
