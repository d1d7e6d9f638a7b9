"""Moving a team below another: the tree of quotas and budgets follows, or the move is refused."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from accounts import services as accounts
from accounts.models import Team, User
from accounts.permissions import can
from accounts.trees import teams_below, ways_up
from scheduler import events
from scheduler.models import Account, Attempt, Quota
from scheduler.selectors.sharing.periods import in_force
from scheduler.selectors.sharing.promised.capacity import top_shortage
from scheduler.selectors.sharing.promised.granted import least_left
from scheduler.selectors.sharing.reach import of_team
from scheduler.services.errors import Conflict, Invalid
from scheduler.services.rows.locking import lock_ends, lock_starts
from scheduler.services.sharing.guard import counts_now
from scheduler.services.sharing.keeping.pledging import give_back_below
from scheduler.services.sharing.tree import account_of, children, parent_of
from scheduler.states import LIVE_ATTEMPT_STATES, moment_words


@transaction.atomic
def move_team(*, actor: User, team: Team, parent: Team | None, now: datetime | None = None) -> Team:
    """The same as `accounts.services.move_team`, and what its accounts are counted under.

    Waits for the starts under way and the team's ends. Raises Conflict while jobs of the team run
    and a budget is in force above its old or its new place: what they are committed to stays where
    they began. Raises Invalid where the team's guarantee or its grants do not fit into its new
    parent's, or at the top into what is there.
    """
    now = now or timezone.now()
    lock_starts()
    # An end lowers the accounts that were above it as it looked.
    lock_ends(of_team(team.pk, "job__project"))
    before = ways_up([team.pk])[team.pk]
    moved = accounts.move_team(actor=actor, team=team, parent=parent)
    after = ways_up([team.pk])[team.pk]
    around = set(before) ^ set(after)
    _refuse_while_committed(moved, around, now)
    # What waits pledges again in its new place, where that fits.
    give_back_below({moved.pk} | teams_below({moved.pk}), around)
    _set_depths(moved)
    if around:
        _refuse_too_much(actor, moved, now)
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


def _refuse_too_much(actor: User, team: Team, now: datetime) -> None:
    """What `set_quota` would refuse this actor in the new place, now or once a grant begins."""
    own = Account.objects.filter(team=team).first()
    if own is None:
        return
    above = parent_of(account_of(team))
    lasting = Q(grants__guaranteed__gt=0, grants__revoked_at=None, grants__valid_until__gt=now)
    promises = Q(guaranteed__gt=0) | lasting
    for quota in Quota.objects.filter(promises, account=own).distinct():
        _refuse_beyond(actor, team, above, quota, now)
    short = top_shortage(own, now=now) if team.parent is None else None
    if short is not None:
        raise Invalid(
            f"At the top, with {short.words}. Lower the guarantee of {team.slug} first, and ask "
            "for the rest as a request, which somebody else decides.",
            field="parent",
            facts=short.plain(),
        )


def _refuse_beyond(
    actor: User, team: Team, above: Account | None, quota: Quota, now: datetime
) -> None:
    scope = {"pool": quota.pool_id, "gpu_model": quota.gpu_model}
    ruling = Quota.objects.filter(account=above, **scope).first()
    if above is None or ruling is None or not ruling.guaranteed:
        if team.parent is not None and not can(actor, "operate", None):
            raise Invalid(
                f"{team.parent.slug} is guaranteed nothing of what {team.slug} is guaranteed. Ask "
                f"for that first, or let an operator lower what {team.slug} has.",
                field="parent",
            )
        return
    beside = Quota.objects.filter(account__in=children(above), **scope)
    left = least_left(ruling, beside, "guaranteed", since=now)
    if left is not None and left.free < 0:
        then = f" from {moment_words(left.at)}" if left.at > now else ""
        raise Invalid(
            f"Below {team.parent or 'the organisation'} {left.below} GPUs would be guaranteed"
            f"{then} of its {left.above}. Raise its guarantee, or lower that of {team.slug}.",
            field="parent",
        )


def _count_held(around: Iterable[int]) -> None:
    """What the teams above hold, counted anew: the moved team's devices are among it or no more."""
    above = Quota.objects.filter(account__team__in=around).order_by("account__depth", "pk")
    # Locked first: ends of other teams lower them meanwhile.
    for quota in above.select_for_update(of=("self",)):
        Quota.objects.filter(pk=quota.pk).update(**counts_now(quota))
