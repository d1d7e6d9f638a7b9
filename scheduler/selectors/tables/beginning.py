"""How far a new installation is: what its first page ticks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Case, Min, Q, QuerySet, Value, When

from accounts.models import DemoMark, DemoOrder, User
from accounts.selectors import visible_projects
from accounts.selectors.rates import list_rates_at
from scheduler.models import Device
from scheduler.selectors.cluster import visible_nodes, with_usual_slots
from scheduler.selectors.jobs import visible_jobs
from scheduler.selectors.tables.together import Part, together
from scheduler.states import JobState

_REFUSED = Case(When(is_refused=True, then=Value("refused")), default=Value(""))
_CARD = Case(When(parent__isnull=True, then=Value("card")), default=Value(""))


@dataclass(frozen=True, slots=True)
class Asked:
    """What was last asked for of the demonstration: `act`, since `ended_at` what came of it."""

    act: str
    says: str
    is_refused: bool
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class Beginning:
    """`has_price`: the list has one now; `done`: the number of the first job that went well, 0 for
    none; `demo_since`: since when a demonstration is here; `asked`: of it; `models`: of the
    devices, as `models_to_price`."""

    has_project: bool
    has_node: bool
    has_job: bool
    has_price: bool
    done: int
    demo_since: datetime | None
    models: list[str]
    asked: Asked | None = None


def beginning_of(viewer: User, *, now: datetime, with_models: bool = False) -> Beginning:
    """As far as the viewer may see it; one statement. No models unless asked for."""
    devices = _one_of_each_model() if with_models else Device.objects.none()
    jobs = visible_jobs(viewer).order_by("pk")
    found = together(
        Part("project", visible_projects(viewer)[:1]),
        Part("node", visible_nodes(viewer)[:1]),
        Part("job", jobs[:1]),
        Part("price", list_rates_at(now)[:1]),
        Part("done", jobs.filter(state=JobState.SUCCEEDED)[:1]),
        Part("demo", DemoMark.objects.order_by("pk")[:1], at="seeded_at"),
        Part("asked", _last_order(), word="says", more="act", last=_REFUSED, at="ended_at"),
        Part("model", devices, word="model", more=_CARD),
    )
    return Beginning(
        bool(found["project"]),
        bool(found["node"]),
        bool(found["job"]),
        bool(found["price"]),
        next((one.number for one in found["done"]), 0),
        next((one.at for one in found["demo"]), None),
        with_usual_slots((one.word, bool(one.more)) for one in found["model"]),
        next((Asked(one.more, one.word, bool(one.last), one.at) for one in found["asked"]), None),
    )


def _last_order() -> QuerySet[DemoOrder]:
    return DemoOrder.objects.order_by("pk")[:1]


def _one_of_each_model() -> QuerySet[Device]:
    """A card and a slot of each model that has them."""
    present = Device.objects.filter(is_present=True).annotate(is_card=Q(parent__isnull=True))
    firsts = present.order_by().values("model", "is_card").annotate(first=Min("pk"))
    return Device.objects.filter(pk__in=firsts.values("first"))
