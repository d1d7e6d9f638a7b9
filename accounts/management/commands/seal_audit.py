"""Seal the audit's newest events now: for an operator, or where no worker runs."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from accounts.services.sealing import seal_audit
from accounts.trail import unsealed_events


class Command(BaseCommand):
    """What the beat task does every few seconds; may run beside it."""

    help = "Chain the audit's events that no seal covers yet."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """How long to wait for changes that are under way."""
        parser.add_argument(
            "--wait", type=float, default=10.0, help="seconds to wait for changes under way"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Try until nothing is unsealed or the time is over; says what is left."""
        deadline = time.monotonic() + options["wait"]
        sealed = seal_audit()
        while unsealed_events() and time.monotonic() < deadline:
            time.sleep(0.2)
            sealed += seal_audit()
        left = unsealed_events()
        self.stdout.write(f"{sealed} events were sealed, {left} wait for changes under way.")
