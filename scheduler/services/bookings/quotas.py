"""What is booked must be within what its owner, and all above it, may hold then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from datetime import datetime

from django.db.models import Count, Q

from accounts.models import Project, Team
from accounts.trees import ways_up
from scheduler.models import Booking, Device, Pool, Quota
from scheduler.selectors.sharing.promised.granted import limits_over
from scheduler.services.bookings.fitting import Taken, most_at_once, open_bookings
from scheduler.services.errors import Invalid
from scheduler.services.sharing.tree import ROOT_KEY, keys_of, name_of
from scheduler.states import moment_words


def lock_pool(owner: Project | Team, pool_id: int) -> Pool:
    """The pool, locked for who books in it, until the end of the transaction.

    Where the owner, or somebody above it, may hold so many of all pools together, all of them are,
    in one order: of two bookings in different pools neither would see the other. Three queries.
    """
    over_all = Quota.objects.filter(
        pool=None, account__key__in=keys_of(owner), maximum__isnull=False
    )
    pools = Pool.objects.select_for_update(no_key=True).order_by("pk")
    found = {one.pk: one for one in (pools if over_all.exists() else pools.filter(pk=pool_id))}
    return found[pool_id]


def refuse_beyond_quota(owner: Project | Team, booking: Booking, *, now: datetime) -> None:
    """Raises Invalid if this and the other bookings below an account on the owner's way up are at
    any moment to come more than that account's maximum, with the grants that count then.

    A booking of any model is compared with maxima for any model alone, and whole nodes of a model
    with those for that model by their GPUs of it. Two queries where there is no maximum, else
    seven.
    """
    quotas = list(
        Quota.objects.filter(
            Q(pool=None) | Q(pool=booking.pool),
            account__key__in=keys_of(owner),
            gpu_model__in={"", booking.gpu_model},
            maximum__isnull=False,
        ).select_related("account__team", "account__project__team")
    )
    if not quotas:
        return
    since = max(booking.from_at, now)
    own = gpus_of([booking])[booking.pk]
    others = booked_of(quotas, since, booking.until_at, but=booking.pk)
    for begin, end, maxima in limits_over(quotas, "maximum", since, booking.until_at):
        for quota in quotas:
            taken = [one for one in others[quota.pk] if one[0] < end and one[1] > begin]
            before, gpus = most_at_once(taken, begin), own[quota.gpu_model]
            if not gpus or gpus + before <= (most := maxima[quota.pk]):
                continue
            also = f" beside {before} booked then" if before else ""
            when = "then" if begin == since else f"from {moment_words(begin)}"
            is_own = owner in (quota.account.project, quota.account.team)
            when += "" if is_own else ", with all below it"
            raise Invalid(
                f"{gpus} GPUs{also} are more than the {most} that {name_of(quota.account)} may "
                f"hold {when}; book fewer, or ask for a higher maximum first.",
                field="nodes",
            )


def booked_of(
    quotas: Collection[Quota], since: datetime, until: datetime, *, but: int | None = None
) -> Mapping[int, list[Taken]]:
    """By quota (id, its account read along) what bookings that count for it take within that time;
    without the booking `but`. Three queries."""
    found = list(
        Booking.objects.filter(open_bookings(since), from_at__lt=until, until_at__gt=since)
        .exclude(pk__in=[] if but is None else [but])
        .select_related("project")
    )
    gpus, counted = gpus_of(found), _keys_of_each(found)
    return {
        quota.pk: [
            (one.from_at, one.until_at, gpus[one.pk][quota.gpu_model])
            for one in found
            if quota.account.key in counted[one.pk]
            and quota.pool_id in (None, one.pool_id)
            and quota.gpu_model in ("", one.gpu_model)
        ]
        for quota in quotas
    }


def _keys_of_each(bookings: Collection[Booking]) -> Mapping[int, frozenset[str]]:
    """The accounts (keys) that each counts for: its owner's and all above. One query; projects have
    been read."""
    ways = ways_up()
    found = {}
    for one in bookings:
        team = one.project.team_id if one.project is not None else one.team_id
        above = () if team is None else (team, *ways.get(team, ()))
        own = {ROOT_KEY} if one.project_id is None else {ROOT_KEY, f"project:{one.project_id}"}
        found[one.pk] = frozenset(own | {f"team:{pk}" for pk in above})
    return found


def gpus_of(bookings: Collection[Booking]) -> Mapping[int, Mapping[str, int]]:
    """By booking (id): its GPUs of each model, "" for all; what is of any model is in that alone,
    but for whole nodes, which have what the nodes have that it has now. One query."""
    whole = {node for one in bookings if not one.gpus_per_node for node in one.node_ids}
    devices = Device.objects.filter(node__in=whole, is_present=True, in_service=True)
    has: dict[int, Counter[str]] = {node: Counter() for node in whole}
    counted = devices.order_by().values_list("node", "model").annotate(count=Count("pk"))
    for node, model, count in counted:
        has[node].update({model: count, "": count})
    found = {}
    for one in bookings:
        part = one.nodes * one.gpus_per_node
        of_nodes = [] if part else [has[node] for node in one.node_ids]
        found[one.pk] = sum(of_nodes, Counter({"": part, one.gpu_model: part}))
    return found
