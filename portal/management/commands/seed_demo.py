"""A whole organisation to look at, in an installation that is there already; or its removal."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounts.errors import DomainError
from accounts.selectors import person_named
from portal.management import seeding
from portal.management.demo import seeding as demo
from portal.management.demo.carrying import SEED, load, scheduler_resting
from scheduler.services.demo.removing import remove_demo


class Command(BaseCommand):
    """Everything goes through the services; all of it or nothing."""

    help = "Add five teams, forty people, 64 simulated GPUs, thirty days of work; or remove them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which story, and what to do with it."""
        parser.add_argument("--remove", action="store_true", help="take all of it out again")
        parser.add_argument("--seed", type=int, default=SEED, help="another number, another story")
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
        with scheduler_resting():
            removed = remove_demo()
        self.stdout.write(f"{removed.rows} rows were removed, 0 are left.")
        if removed.kept_events:
            self.stdout.write(
                f"{removed.kept_events} audit events stay: others have changed things since, and "
                "the audit does not lose its middle."
            )

    def _seed(self, options: dict[str, Any]) -> None:
        actor = person_named(options["by"])
        if actor is None or not actor.is_superuser:
            raise CommandError(f"{options['by']} is no administrator; see manage.py create_admin.")
        made = load(
            actor,
            seed=options["seed"],
            jobs=options["jobs"],
            is_told=options["anyway"],
            tell=self.stdout.write,
        )
        for account in made.accounts:
            self.stdout.write(f"{account.username}\t{account.password}\t{account.words}")
        self.stdout.write(
            f"{len(made.users)} people, {len(made.teams)} teams, {len(made.nodes)} nodes and "
            f"{made.moments} moments were added; --remove takes them out again."
        )
