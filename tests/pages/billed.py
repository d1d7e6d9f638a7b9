"""A month that is over and closed, for the pages of what was billed."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from accounts.models import Project, User
from scheduler.models import Statement
from scheduler.services import books
from tests import scenes
from tests.pages.rows import Row
from tests.pages.rows import get as _get
from tests.pages.rows import post as _post

#                           alice bob lead fin  op carol root
ROWS: tuple[Row, ...] = (
    _get("finance:statement", "404 404 200 200 404 404 200", "statement"),
    _post(
        "finance:statement_act",
        "404 404 302 403 404 404 302",
        "statement",
        "dispute",
        text="Two hours too many.",
    ),
)


def billed(root: User, owner: User, project: Project, cluster: scenes.Cluster) -> int:
    """Two hours of one card in the month before the last; the number of the statement of it."""
    now = timezone.now()
    last = now.replace(day=1) - timedelta(days=1)
    began = (last.replace(day=1) - timedelta(days=15)).replace(hour=12)
    node = scenes.add_node(cluster, "n-past", 1, now=began)
    attempt = scenes.start(scenes.submit(owner, project, now=began), node, now=began)
    scenes.sync(node, scenes.running(attempt), now=began)
    scenes.sync(node, scenes.ended(attempt), now=began + timedelta(hours=2))
    books.close_period(actor=root, period=f"{began:%Y-%m}", now=now)
    return Statement.objects.get().number
