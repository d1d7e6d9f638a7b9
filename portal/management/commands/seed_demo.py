"""The demonstration's teams, people and prices, in an installation that is there already."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounts.errors import DomainError
from accounts.selectors import person_named
from portal.management import seeding


class Command(BaseCommand):
    """Goes through the services; repeating it changes nothing."""

    help = "Add three teams, people in every role, prices and a pool to try things with."

    def handle(self, *args: Any, **options: Any) -> None:
        actor = person_named(seeding.ADMINISTRATOR)
        if actor is None or not actor.is_superuser:
            raise CommandError("Create the administrator 'admin' first: manage.py create_admin")
        try:
            made = seeding.seed_demo(actor)
        except DomainError as problem:
            raise CommandError(str(problem)) from None
        for account in made:
            self.stdout.write(f"{account.username}\t{account.password}\t{account.words}")
        self.stdout.write(f"{len(made)} people added.")
