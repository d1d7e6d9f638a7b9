"""After the database was put back to a copy, before the servers are started."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from scheduler.management.databases import database_in_words
from scheduler.models import Node
from scheduler.services.nodes.recounting import begin_recount


class Command(BaseCommand):
    """May be called again; each call waits for all nodes anew."""

    help = "Say that the database was put back: nothing starts before every node was heard."

    def handle(self, *args: Any, **options: Any) -> None:
        """Raises numbers, marks nodes, says where and what comes next. A database without nodes is
        refused: it is another one than what was put back."""
        where = database_in_words()
        if not Node.objects.exists():
            raise CommandError(
                f"There is no node in {where}, so this is hardly what was put back. On an "
                "installed machine take deploy/manage.sh, which knows the servers' database."
            )
        count = begin_recount(now=timezone.now())
        self.stdout.write(
            f"This is {where}. Attempts are numbered anew. Nothing starts before {count} node"
            f"{'' if count == 1 else 's'} said what runs there; one that does not come back is "
            "waited for until it is lost, or retired by an operator. Start the servers now."
        )
