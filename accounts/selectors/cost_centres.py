"""Which teams are charged to which cost centre."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from accounts.errors import Forbidden
from accounts.models import CostCentre, Team, TeamPast, User
from accounts.permissions import can


@dataclass(frozen=True, slots=True)
class ChargedTeam:
    """A team of a centre. `since`: when it came to it, None where it never was elsewhere."""

    slug: str
    name: str
    since: datetime | None


@dataclass(frozen=True, slots=True)
class Centre:
    """A cost centre and the teams charged to it now, by name; of no code those without one."""

    code: str
    name: str
    teams: tuple[ChargedTeam, ...]


def cost_centres(viewer: User) -> list[Centre]:
    """Every centre by code, those without a team too, and last the teams that have none; three
    queries. Raises Forbidden for who may not read the books."""
    if not can(viewer, "read_books", None):
        raise Forbidden("Only those who keep or audit the books may look at this.")
    fields = ("pk", "slug", "name", "cost_centre_id")
    rows = list(Team.objects.order_by("name").values_list(*fields))
    charged = {pk: code or "" for pk, _, _, code in rows}
    since: dict[int, datetime] = {}
    for pk, code, until in TeamPast.objects.order_by("pk").values_list(
        "team_id", "cost_centre", "until_at"
    ):
        # Of a team that was renamed only, the past has the centre of now.
        if code != charged[pk]:
            since[pk] = until
    by_code: dict[str, list[ChargedTeam]] = {}
    for pk, slug, name, code in rows:
        by_code.setdefault(code or "", []).append(ChargedTeam(slug, name, since.get(pk)))
    named = [*CostCentre.objects.order_by("code").values_list("code", "name"), ("", "")]
    found = [Centre(code, name, tuple(by_code.get(code, ()))) for code, name in named]
    return [centre for centre in found if centre.code or centre.teams]
