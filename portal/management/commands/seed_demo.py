"""A whole organisation to look at, in an installation that is there already; or its removal."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone

from accounts.errors import DomainError
from accounts.selectors import person_named
from portal.management import seeding
from portal.management.demo import seeding as demo
from scheduler.ledger.periods import Month
from scheduler.loop.lease import Lease, acquire_lease, release_lease, renew_lease
from scheduler.services.demo.marking import heads_now, note_before, note_made, refuse_seeding
from scheduler.services.demo.removing import remove_demo


class Command(BaseCommand):
    """Everything goes through the services; all of it or nothing."""

    help = "Add five teams, forty people, 64 simulated GPUs, thirty days of work; or remove them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which story, and what to do with it."""
        parser.add_argument("--remove", action="store_true", help="take all of it out again")
        parser.add_argument("--seed", type=int, default=1, help="another number, another story")
        parser.add_argument("--jobs", type=int, default=demo.JOBS, help="how much work there was")
        parser.add_argument("--by", default=seeding.ADMINISTRATOR, help="which administrator acts")
        parser.add_argument(
            "--anyway", action="store_true", help="even where jobs of others have been"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Seed or remove; says what was made."""
        try:
            if options["remove"]:
                self._remove()
            else:
                self._seed(options)
        except DomainError as problem:
            raise CommandError(str(problem)) from None

    def _remove(self) -> None:
        removed = remove_demo()
        self.stdout.write(f"{removed.rows} rows were removed.")
        if removed.kept_events:
            self.stdout.write(
                f"{removed.kept_events} audit events stay: others have changed things since, and "
                "the audit does not lose its middle."
            )

    def _seed(self, options: dict[str, Any]) -> None:
        actor = person_named(options["by"])
        if actor is None or not actor.is_superuser:
            raise CommandError(f"{options['by']} is no administrator; see manage.py create_admin.")
        now = timezone.now().astimezone(UTC)
        refuse_seeding(first=_first_month(now), is_told=options["anyway"])
        heads = heads_now()
        lease = acquire_lease("seed_demo", now=now)
        if lease is None:
            raise CommandError(
                "A scheduler is running here and would take part in the past. Stop it, seed, and "
                "start it again."
            )
        keeper = _Keeper(lease)
        try:
            with transaction.atomic():
                mark = note_before(seed=options["seed"], now=now, heads=heads)
                made = demo.seed(
                    actor,
                    seed=options["seed"],
                    jobs=options["jobs"],
                    now=now,
                    renew=keeper.token,
                    tell=self.stdout.write,
                )
                note_made(mark, made.roots())
        finally:
            release_lease(keeper.lease, now=timezone.now())
        for account in made.accounts:
            self.stdout.write(f"{account.username}\t{account.password}\t{account.words}")
        self.stdout.write(
            f"{len(made.users)} people, {len(made.teams)} teams, {len(made.nodes)} nodes and "
            f"{made.moments} moments were added; --remove takes them out again."
        )


class _Keeper:
    """Keeps the scheduler's lease while the past is told."""

    def __init__(self, lease: Lease) -> None:
        self.lease = lease

    def token(self) -> int:
        """The lease's token, after renewing it where that is due."""
        kept = renew_lease(self.lease, now=timezone.now())
        if kept is None:
            raise CommandError("A scheduler has started meanwhile; nothing was kept.")
        self.lease = kept
        return kept.token


def _first_month(now: datetime) -> Month:
    this = Month.of(int(now.timestamp()))
    return Month.of(Month.of(this.start_s - 1).start_s - 1)
