"""Moving a team below another: the tree of quotas and budgets follows, or the move is refused."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from accounts import services as accounts
from accounts.models import Team, User
from accounts.trees import teams_below, ways_up
from scheduler import events
from scheduler.models import Account, Attempt, Quota
from scheduler.selectors.sharing.periods import in_force
from scheduler.selectors.sharing.reach import of_team
from scheduler.services.errors import Conflict, Invalid
from scheduler.services.rows.locking import lock_ends, lock_starts
from scheduler.services.sharing.guard import counts_now
from scheduler.services.sharing.keeping.pledging import give_back_below
from scheduler.services.sharing.tree import account_of, parent_of
from scheduler.states import LIVE_ATTEMPT_STATES


@transaction.atomic
def move_team(*, actor: User, team: Team, parent: Team | None, now: datetime | None = None) -> Team:
    """The same as `accounts.services.move_team`, and what its accounts are counted under.

    Waits for the starts under way and the team's ends. Raises Conflict while jobs of the team run
    and a budget is in force above its old or its new place: what they are committed to stays where
    they began. Raises Invalid where the team's guarantee does not fit into its new parent's.
    """
    lock_starts()
    # An end lowers the accounts that were above it as it looked.
    lock_ends(of_team(team.pk, "job__project"))
    before = ways_up([team.pk])[team.pk]
    moved = accounts.move_team(actor=actor, team=team, parent=parent)
    after = ways_up([team.pk])[team.pk]
    around = set(before) ^ set(after)
    _refuse_while_committed(moved, around, now or timezone.now())
    # What waits pledges again in its new place, where that fits.
    give_back_below({moved.pk} | teams_below({moved.pk}), around)
    _set_depths(moved)
    _refuse_too_much(moved)
    _count_held(around)
    events.wake_scheduler_on_commit()
    return moved


def _refuse_while_committed(team: Team, around: Iterable[int], now: datetime) -> None:
    if not in_force(now).filter(account__team__in=around).exists():
        return
    ids = {team.pk} | teams_below({team.pk})
    live = Attempt.objects.filter(job__project__team__in=ids, state__in=LIVE_ATTEMPT_STATES)
    if count := live.count():
        raise Conflict(
            f"{count} jobs of {team.slug} run, and a budget above its old or new place is in "
            "force. Move the team when they have ended, or let the budget end first."
        )


def _set_depths(team: Team) -> None:
    ids = {team.pk} | teams_below({team.pk})
    ways = ways_up(ids)
    for account in Account.objects.filter(team__in=ids):
        depth = len(ways[account.team_id or 0]) + 1
        Account.objects.filter(pk=account.pk).update(depth=depth)
    for account in Account.objects.filter(project__team__in=ids).select_related("project"):
        assert account.project is not None
        depth = len(ways[account.project.team_id]) + 2
        Account.objects.filter(pk=account.pk).update(depth=depth)


def _refuse_too_much(team: Team) -> None:
    """What is guaranteed below must be guaranteed above, in its new place too."""
    own = Account.objects.filter(team=team).first()
    if own is None:
        return
    above = parent_of(account_of(team))
    for quota in Quota.objects.filter(account=own):
        scope = {"pool": quota.pool_id, "gpu_model": quota.gpu_model}
        ruling = Quota.objects.filter(account=above, **scope).first()
        if ruling is None or not ruling.guaranteed or team.parent_id is None:
            continue
        beside = Quota.objects.filter(account__team__parent=team.parent_id, **scope)
        beside |= Quota.objects.filter(account__project__team=team.parent_id, **scope)
        given = sum(one.guaranteed for one in beside)
        if given > ruling.guaranteed:
            raise Invalid(
                f"Below {team.parent} {given} GPUs would be guaranteed of its "
                f"{ruling.guaranteed}. Raise its guarantee, or lower that of {team.slug}.",
                field="parent",
            )


def _count_held(around: Iterable[int]) -> None:
    """What the teams above hold, counted anew: the moved team's devices are among it or no more."""
    above = Quota.objects.filter(account__team__in=around).order_by("account__depth", "pk")
    # Locked first: ends of other teams lower them meanwhile.
    for quota in above.select_for_update(of=("self",)):
        Quota.objects.filter(pk=quota.pk).update(**counts_now(quota))
