"""After the database was put back to a copy, before the servers are started."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from scheduler.services.nodes.recounting import begin_recount


class Command(BaseCommand):
    """May be called again; each call waits for all nodes anew."""

    help = "Say that the database was put back: nothing starts before every node was heard."

    def handle(self, *args: Any, **options: Any) -> None:
        """Raises numbers, marks nodes, says what comes next."""
        count = begin_recount(now=timezone.now())
        self.stdout.write(
            f"Attempts are numbered anew. Nothing starts before {count} node"
            f"{'' if count == 1 else 's'} said what runs there; one that does not come back is "
            "waited for until it is lost, or retired by an operator. Start the servers now."
        )
