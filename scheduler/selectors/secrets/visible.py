"""Which secrets there are, never what they hold."""

from __future__ import annotations

from django.db.models import F, Q, QuerySet

from accounts.errors import NotFound
from accounts.models import User
from accounts.selectors import visible_projects
from scheduler.models import Secret


def visible_secrets(viewer: User) -> QuerySet[Secret]:
    """The viewer's own and those of the projects that the viewer sees, values left out."""
    seen = Q(owner=viewer) | Q(project__in=visible_projects(viewer))
    rows = Secret.objects.filter(seen).defer("sealed")
    return rows.select_related("project__team", "set_by").order_by(
        F("project").asc(nulls_first=True), "name"
    )


def get_visible_secret(viewer: User, pk: int) -> Secret:
    """Raises NotFound."""
    secret = visible_secrets(viewer).filter(pk=min(pk, 2**63 - 1)).first()
    if secret is None:
        raise NotFound("There is no such secret for you.")
    return secret
