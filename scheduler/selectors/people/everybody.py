"""Who has an account, for administrators: teams, when last seen, what would end with it."""

from __future__ import annotations

from django.db.models import Count, IntegerField, Max, OuterRef, Prefetch, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce, Greatest
from django.utils import timezone

from accounts.errors import NotFound
from accounts.models import ApiToken, Membership, User, UserKind
from accounts.permissions import can
from accounts.selectors.addresses import open_changes
from scheduler.models import Job
from scheduler.states import OPEN_JOB_STATES

STANDINGS = ("active", "inactive")


def everybody(
    viewer: User, *, text: str = "", standing: str = "", after: str = "", limit: int
) -> list[User]:
    """People by user name behind `after`, with `seen_at`, `tokens_alive`, `jobs_open`, the address
    that waits to be confirmed (`address_asked`) and their memberships; `text` is looked for in
    names, addresses and teams. Three statements."""
    rows = _people(viewer)
    if text:
        named = Q(username__icontains=text) | Q(display_name__icontains=text)
        teams = Membership.objects.filter(
            Q(team__slug__icontains=text) | Q(team__name__icontains=text), user=OuterRef("pk")
        )
        rows = rows.filter(named | Q(email__icontains=text) | Q(pk__in=teams.values("user")))
    if standing:
        rows = rows.filter(is_active=standing == "active")
    if after:
        rows = rows.filter(username__gt=after)
    return list(rows.order_by("username")[:limit])


def get_somebody(viewer: User, username: str) -> User:
    """One person as `everybody` has them. Raises NotFound."""
    # No database keeps such a name, and PostgreSQL refuses the question.
    known = "\x00" not in username
    found = _people(viewer).filter(username=username).first() if known else None
    if found is None:
        raise NotFound("There is nobody with this user name.", field="username")
    return found


def _people(viewer: User) -> QuerySet[User]:
    if not can(viewer, "administer_cluster", None):
        raise NotFound()
    mine = {"user": OuterRef("pk")}
    alive = ApiToken.objects.filter(
        revoked_at__isnull=True, expires_at__gt=timezone.now(), **mine
    ).order_by()
    used = ApiToken.objects.filter(**mine).order_by().values("user")
    open_jobs = Job.objects.filter(owner=OuterRef("pk"), state__in=OPEN_JOB_STATES)
    last_call = Subquery(used.annotate(at=Max("last_used_at")).values("at"))
    return (
        User.objects.filter(kind=UserKind.PERSON)
        .annotate(
            called_at=last_call,
            seen_at=Greatest(Coalesce("last_login", last_call), Coalesce(last_call, "last_login")),
            tokens_alive=_count(alive, "user"),
            jobs_open=_count(open_jobs.order_by(), "owner"),
            address_asked=Subquery(open_changes().filter(**mine).values("new_email")[:1]),
        )
        .prefetch_related(
            Prefetch(
                "memberships",
                Membership.objects.select_related("team").order_by("team__name"),
                to_attr="in_teams",
            )
        )
    )


def _count(rows: QuerySet[ApiToken] | QuerySet[Job], by: str) -> Coalesce:
    counted = rows.values(by).annotate(many=Count("pk")).values("many")
    return Coalesce(Subquery(counted, output_field=IntegerField()), 0)
