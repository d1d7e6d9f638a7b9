"""Who is behind an account, as of a moment that never moves.

A file of a closed month stays the same, whatever its teams are called and charged to later:
`deploy/decisions/0144-names-as-of-then.md` says which moment counts for what.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache

from accounts.models import Project, Team, TeamPast
from scheduler.ledger.entries import PLATFORM, team_of
from scheduler.ledger.focus.facts import Owner
from scheduler.ledger.periods import Month
from scheduler.ledger.shares import UNASSIGNED

_NAMES = {PLATFORM: "Platform", UNASSIGNED: "Unassigned"}
_ALWAYS = datetime.max.replace(tzinfo=UTC)
# Until when (exclusive) a team had this name and this cost centre, in order.
_Said = tuple[datetime, str, str]


class Owners:
    """Teams and projects by account, at any time; grows with them and with their changes."""

    def __init__(self) -> None:
        said: dict[int, list[_Said]] = {}
        pasts = TeamPast.objects.order_by("pk")
        for team, until, name, centre in pasts.values_list(
            "team_id", "until_at", "name", "cost_centre"
        ):
            said.setdefault(team, []).append((until, name, centre))
        teams = Team.objects.order_by("pk")
        for team, name, now in teams.values_list("pk", "name", "cost_centre_id"):
            said.setdefault(team, []).append((_ALWAYS, name, now or ""))
        self._found = {f"team:{team}": tuple(_owners(team, rows)) for team, rows in said.items()}
        for project, team, name in Project.objects.values_list("pk", "team_id", "name"):
            id_ = f"project:{project}"
            self._found[f"team:{team}/{id_}"] = tuple(_owners(team, said[team], id_, name))

    def at(self, account: str, when: datetime) -> Owner:
        """Under the account's own name where it is no team's."""
        for until, owner in self._found.get(account, ()):
            if when < until:
                return owner
        head = team_of(account)
        return Owner(team_id=head, team_name=_NAMES.get(head, head))


def _owners(
    team: int, said: list[_Said], project: str = "", project_name: str = ""
) -> Iterator[tuple[datetime, Owner]]:
    for until, name, centre in said:
        yield (
            until,
            Owner(
                team_id=f"team:{team}",
                team_name=name,
                cost_centre=centre,
                project_id=project,
                project_name=project_name,
            ),
        )


@lru_cache(maxsize=64)
def beginning(day_s: int) -> datetime:
    """Of a UTC day."""
    return datetime.fromtimestamp(day_s, UTC)


@lru_cache(maxsize=64)
def last_of(month: str) -> datetime:
    """The last second of a month, `2026-11`."""
    return datetime.fromtimestamp(Month.parse(month).end_s - 1, UTC)
