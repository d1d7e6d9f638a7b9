"""Who may submit at which tier: a ceiling by team and project.

The lowest ceiling on the way up to the organisation holds. Where nobody on the way has one, the
server's own does (`TRAINYARD_TIER_CEILING`), so that production is open only to those an operator
names. It counts when a job is submitted: who waits or runs already keeps its tier.
"""

from __future__ import annotations

from collections.abc import Collection

from django.db import transaction

from accounts.models import Project, Team, User
from accounts.services.audit import record
from scheduler.conf import load_conf
from scheduler.models import Account
from scheduler.services.errors import Invalid
from scheduler.services.sharing.rights import about, require_operator
from scheduler.services.sharing.tree import account_of, keys_of, lines_of, whose_account
from scheduler.spec import SpecInvalid, SpecProblem
from scheduler.states import Tier


def ceiling_of(owner: Team | Project | None) -> Tier:
    """The highest tier that a team, a project or (None) anybody else may submit at. One query."""
    lowest = _lowest(keys_of(owner))
    return usual_ceiling() if lowest is None else Tier(_value(lowest))


def highest_open_to(projects: Collection[Project]) -> Tier:
    """The highest tier that any of these projects may submit at; two queries for any number."""
    lines = lines_of({(project.pk, project.team_id) for project in projects})
    keys = frozenset().union(*lines.values())
    capped = Account.objects.filter(key__in=keys, priority_ceiling__isnull=False)
    ceilings = {account.key: Tier(_value(account)) for account in capped}
    usual = usual_ceiling()
    highest = [
        min((ceilings[key] for key in line if key in ceilings), default=usual)
        for line in lines.values()
    ]
    return max(highest, default=usual)


def refuse_above_ceiling(project: Project, tier: int) -> None:
    """Raises SpecInvalid if the project may not submit at this tier."""
    lowest = _lowest(keys_of(project))
    ceiling = usual_ceiling() if lowest is None else Tier(_value(lowest))
    if tier <= ceiling:
        return
    whose = "all whom no operator allowed more"
    if lowest is not None:
        whose = whose_account(lowest, project) or "the organisation"
    words = (
        f"may be {_word(ceiling)} at most for {whose}; choose that or a lower one, or ask an "
        f"operator to allow {_word(Tier(tier))}"
    )
    raise SpecInvalid([SpecProblem("tier", words)])


@transaction.atomic
def set_ceiling(*, actor: User, owner: Team | Project | None, tier: str | None) -> Account:
    """The highest tier for all below; None lifts it. Raises Invalid for one without effect."""
    require_operator(actor)
    known = {_word(one): one for one in Tier}
    if tier is not None and tier not in known:
        raise Invalid(f"Choose one of {', '.join(known)}.", field="tier")
    account = account_of(owner)
    value = None if tier is None else int(known[tier])
    above = _lowest(keys_of(owner) - {account.key})
    if value is not None and above is not None and value >= _value(above):
        raise Invalid(
            f"{tier} has no effect: {_word(Tier(_value(above)))} is the most that an account above "
            "allows. Ceilings may only become lower further down.",
            field="tier",
        )
    before = {"priority_ceiling": account.priority_ceiling}
    Account.objects.filter(pk=account.pk).update(priority_ceiling=value)
    account.refresh_from_db()
    after = {"priority_ceiling": value}
    record(actor, "quota.set_ceiling", about(account), before=before, after=after)
    return account


def _lowest(keys: frozenset[str]) -> Account | None:
    """Of these accounts the one whose ceiling holds; of equal ones the highest in the tree."""
    capped = Account.objects.filter(key__in=keys, priority_ceiling__isnull=False)
    return capped.select_related("team").order_by("priority_ceiling", "depth").first()


def _value(account: Account) -> int:
    assert account.priority_ceiling is not None
    return account.priority_ceiling


def usual_ceiling() -> Tier:
    """Of all whom no ceiling concerns: the server's own."""
    return Tier[load_conf().tier_ceiling.upper()]


def _word(tier: Tier) -> str:
    return tier.name.lower()
