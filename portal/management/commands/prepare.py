"""Bring database, cache table and static files up to date; safe to repeat."""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connection, transaction

from accounts.errors import DomainError
from accounts.models import User
from accounts.selectors import person_named
from accounts.services import SCOPES, issue_token
from portal.management import enrolling, seeding


class Command(BaseCommand):
    """What a start needs, in a process of its own; `up` and every deployment run it first."""

    help = "Bring database, cache table and static files up to date; safe to repeat."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--first-administrator",
            action="store_true",
            help="where there is none, create 'admin' with a random password",
        )
        parser.add_argument("--demo", action="store_true", help="teams, people, prices to try")
        parser.add_argument(
            "--node-token",
            action="append",
            default=[],
            metavar="NODE=POOL",
            help="a single-use enrolment token, unless the node's folder holds a good token; the "
            "pool is made when it is missing",
        )
        parser.add_argument("--api-token", action="append", default=[], metavar="USERNAME")
        parser.add_argument("--json", action="store_true", help="print what was made as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        # What this writes is for this user alone: the database holds everybody's jobs.
        before = os.umask(0o077)
        try:
            self._lay_tables()
            made = self._make(options)
        except DomainError as problem:
            raise CommandError(str(problem)) from None
        finally:
            os.umask(before)
        if options["json"]:
            self.stdout.write(json.dumps(made))

    @transaction.atomic
    def _make(self, options: dict[str, Any]) -> dict[str, Any]:
        """Everything or nothing: whoever is made has a password that is kept."""
        made: list[seeding.NewAccount] = []
        if options["first_administrator"] or options["demo"]:
            made += seeding.ensure_administrator()
        if options["demo"]:
            made += seeding.seed_demo(self._administrator())
        nodes = [self._node_token(each) for each in options["node_token"]]
        result = {
            "accounts": seeding.as_documents(made),
            "node_tokens": {name: secret for name, secret, _ in nodes if secret},
            "node_troubles": {name: words for name, _, words in nodes if words},
            "api_tokens": {name: self._api_token(name) for name in options["api_token"]},
        }
        if made:
            seeding.keep_accounts(made)
        return result

    def _lay_tables(self) -> None:
        call_command("migrate", interactive=False, verbosity=0, stdout=sys.stderr)
        call_command("createcachetable", verbosity=0, stdout=sys.stderr)
        if not settings.DEBUG:
            call_command("collectstatic", interactive=False, verbosity=0, stdout=sys.stderr)
            _open_to_the_proxy(Path(settings.STATIC_ROOT))
        if connection.vendor == "sqlite":
            Path(settings.DATABASES["default"]["NAME"]).chmod(0o600)

    def _administrator(self) -> User:
        found = person_named(seeding.ADMINISTRATOR)
        if found is None or not found.is_superuser:
            raise CommandError(
                f"There is no administrator named {seeding.ADMINISTRATOR}; add nodes and people "
                "on the pages instead."
            )
        return found

    def _node_token(self, wish: str) -> tuple[str, str, str]:
        """Name, token, and why there is none; both empty for a node that needs none."""
        name, _, pool = wish.partition("=")
        try:
            if enrolling.is_known(name):
                return name, "", ""
            return name, enrolling.token_for(name, pool, actor=self._administrator()), ""
        except (DomainError, CommandError, OSError) as problem:
            return name, "", str(problem)

    def _api_token(self, username: str) -> str:
        user = person_named(username)
        if user is None:
            raise CommandError(f"There is nobody named {username}.")
        _, secret = issue_token(actor=user, name="local", scopes=SCOPES, expires_in_days=1)
        return secret


def _open_to_the_proxy(folder: Path) -> None:
    """Let everybody read what everybody is sent: a proxy serves it as another user.

    Over what is there, not by a mode for what is written: an earlier start wrote most of it, and
    compressed files are written past the storage and its modes.
    """
    for place, _, names in os.walk(folder):
        Path(place).chmod(0o755)
        for name in names:
            (Path(place) / name).chmod(0o644)
