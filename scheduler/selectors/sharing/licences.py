"""Licences and who holds them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from accounts.errors import NotFound
from accounts.models import User
from scheduler.models import Job, Licence
from scheduler.states import LIVE_JOB_STATES, JobState


@dataclass(frozen=True, slots=True)
class LicenceView:
    """A licence, and how many of its tokens live jobs hold."""

    licence: Licence
    held: int


def licence_views(viewer: User) -> list[LicenceView]:
    """All licences, by name; everybody who is signed in may see how many are left."""
    held: Counter[str] = Counter()
    live = Job.objects.filter(state__in=LIVE_JOB_STATES, is_shaped=True)
    for licences in live.values_list("licences", flat=True):
        held.update(licences)
    return [LicenceView(one, held[one.name]) for one in Licence.objects.order_by("name")]


def get_visible_licence(viewer: User, name: str) -> Licence:
    """Raises NotFound."""
    found = Licence.objects.filter(name=name).first()
    if found is None:
        raise NotFound()
    return found


def licence_totals() -> Mapping[str, int]:
    """Tokens there are, by name."""
    return dict(Licence.objects.values_list("name", "total"))


def asking_jobs(name: str) -> list[int]:
    """Jobs that hold tokens of it or wait for some, by number."""
    states = [*LIVE_JOB_STATES, JobState.QUEUED, JobState.HELD]
    jobs = Job.objects.filter(state__in=states, is_shaped=True).order_by("pk")
    return [pk for pk, licences in jobs.values_list("pk", "licences") if name in licences]
