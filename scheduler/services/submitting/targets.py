"""Where a job is meant to go: its project and queue, checked for the actor and the pool."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db.models import QuerySet

from accounts.models import Project, User
from accounts.permissions import can
from accounts.selectors import get_visible_project
from accounts.statements import AskedOnce
from scheduler.models import Budget, Pool, Queue, Quota
from scheduler.selectors.machines.datasets import dataset_names
from scheduler.selectors.machines.shapes import Shape, largest_shape
from scheduler.selectors.sharing.licences import licence_totals
from scheduler.services.errors import NotFound
from scheduler.services.prices.highest import Dearest
from scheduler.services.secrets import secret_problems
from scheduler.services.sharing.alerts import asked_at_submit
from scheduler.services.sharing.waiting_room import capped_on_the_way
from scheduler.services.submitting.columns import DEFAULT_POOL, pools_of
from scheduler.services.submitting.longest import longest_on_the_way
from scheduler.spec import JobSpec, SpecInvalid, SpecProblem, units
from scheduler.spec.values import WHOLE_MILLI, format_milli

if TYPE_CHECKING:
    from scheduler.services.submitting.groups import Members

FARTHEST_BEGIN = timedelta(days=366)


@dataclass(slots=True)
class Seen:
    """What the jobs before read in the same transaction; equals reading it again for each."""

    projects: dict[str, Project] = field(default_factory=dict)
    queues: dict[str, Queue | None] = field(default_factory=dict)
    shapes: dict[tuple[int, str, int], Shape] = field(default_factory=dict)
    capped: dict[int, bool] = field(default_factory=dict)
    longest: dict[tuple[int, int], tuple[Quota, int] | None] = field(default_factory=dict)
    unlimited: set[int] = field(default_factory=set)
    budgets: dict[datetime, tuple[Budget, ...]] = field(default_factory=dict)
    dearest: dict[datetime, Dearest] = field(default_factory=dict)
    passed: set[tuple[Hashable, ...]] = field(default_factory=set)
    # By project and name: the groups that were locked, as `groups.Members`.
    groups: dict[tuple[str, str], Members] = field(default_factory=dict)

    def once(self, check: Callable[..., None], *about: Hashable) -> None:
        """Make a check unless it was passed before; what it raises goes through."""
        if (check, *about) not in self.passed:
            check(*about)
            self.passed.add((check, *about))

    def budgets_at(self, now: datetime) -> tuple[Budget, ...]:
        """As `asked_at_submit`."""
        if now not in self.budgets:
            self.budgets[now] = asked_at_submit(now)
        return self.budgets[now]

    def dearest_at(self, now: datetime) -> Dearest:
        """What the least time of jobs costs, by prices that are looked up once."""
        return self.dearest.setdefault(now, Dearest(now))

    def has_cap(self, project: Project) -> bool:
        """Whether an account on the project's way up caps its waiting jobs or its sessions."""
        if project.pk not in self.capped:
            self.capped[project.pk] = capped_on_the_way(project).exists()
        return self.capped[project.pk]

    def longest_in(self, project: Project, pool: Pool, now: datetime) -> tuple[Quota, int] | None:
        """As `longest_on_the_way`, for the project in this pool."""
        if project.pk in self.unlimited:
            return None
        key = (project.pk, pool.pk)
        if key not in self.longest:
            self.longest[key] = longest_on_the_way(project.pk, project.team_id, pool, now=now)
        return self.longest[key]

    def project(self, actor: User, path: str) -> Project:
        """Raises NotFound."""
        if path not in self.projects:
            self.projects[path] = get_visible_project(actor, path)
        return self.projects[path]

    def queue(self, pool: str) -> Queue | None:
        """The pool's first queue with its pool."""
        if pool not in self.queues:
            self.queues[pool] = next(iter(_FIRST_QUEUE.read(pool)), None)
        return self.queues[pool]

    def shape(self, pool: Pool, gpu_model: str, milli: int) -> Shape:
        """The largest that the pool offers of this model, of whole cards or of large parts."""
        key = (pool.pk, gpu_model, milli)
        if key not in self.shapes:
            self.shapes[key] = largest_shape(pool, gpu_model, milli)
        return self.shapes[key]


def _first_queue(pool: str) -> QuerySet[Queue]:
    return Queue.objects.select_related("pool").filter(pool__name=pool).order_by("pk")[:1]


_FIRST_QUEUE = AskedOnce(_first_queue)


def resolve_target(
    actor: User, spec: JobSpec, now: datetime, seen: Seen | None = None
) -> tuple[Project, Queue]:
    """The project and queue a spec names, checked for this actor; raises SpecInvalid."""
    seen = seen or Seen()
    problems = [*_unlicensed(spec), *_unheard_of(spec)]
    if spec.begin is not None and spec.begin - now > FARTHEST_BEGIN:
        problems.append(SpecProblem("begin", "lies more than a year ahead; choose a nearer time"))
    project = None
    try:
        project = seen.project(actor, spec.project)
    except NotFound:
        problems.append(SpecProblem("project", f"there is no project {spec.project} for you"))
    if project is not None and not can(actor, "submit_job", project):
        problems.append(SpecProblem("project", f"you may not submit jobs to {spec.project}"))
    if project is not None and project.is_archived:
        problems.append(SpecProblem("project", f"{spec.project} is archived; choose another"))
    if project is not None:
        problems += secret_problems(actor, project, spec.secrets)
    name = spec.pool or DEFAULT_POOL
    queue = seen.queue(name)
    if queue is None:
        problems.append(SpecProblem("pool", f"there is no pool {name}"))
    else:
        problems += _misfits(spec, queue, seen.shape(queue.pool, spec.gpu_model, spec.gpu_milli))
    for other in pools_of(spec)[1:]:
        problems += _misfits_in(spec, other, seen)
    if problems or project is None or queue is None:
        raise SpecInvalid(problems)
    return project, queue


def _misfits_in(spec: JobSpec, name: str, seen: Seen) -> list[SpecProblem]:
    """What keeps it from ever starting in another pool that it chooses from."""
    queue = seen.queue(name)
    if queue is None:
        return [SpecProblem("other_pools", f"there is no pool {name}")]
    found = _misfits(spec, queue, seen.shape(queue.pool, spec.gpu_model, spec.gpu_milli))
    return [*in_other_pool(queue.pool, SpecInvalid(found)).problems] if found else []


def in_other_pool(pool: Pool, refused: SpecInvalid) -> SpecInvalid:
    """What is wrong with a job where it may also start, as problems of that choice."""
    words = (f"{one.field} {one.message}" for one in refused.problems)
    return SpecInvalid([SpecProblem("other_pools", f"in pool {pool.name}: {w}") for w in words])


def _unlicensed(spec: JobSpec) -> list[SpecProblem]:
    """Licences nobody keeps, and more tokens than there are."""
    if not spec.licences:
        return []
    totals, problems = licence_totals(), []
    for name, count in spec.licences.items():
        if name not in totals:
            known = ", ".join(totals) or "none"
            words = f"there is no licence {name}; known are: {known}"
            problems.append(SpecProblem("licences", words))
        elif count > totals[name]:
            words = f"there are {totals[name]} tokens of {name}; ask for fewer"
            problems.append(SpecProblem("licences", words))
    return problems


def _unheard_of(spec: JobSpec) -> list[SpecProblem]:
    """Data sets that nobody has told of: naming them would have no effect."""
    known = dataset_names() if spec.datasets else []
    listed, wrong = ", ".join(known[:10]) or "none", set(spec.datasets) - set(known)
    words = "there is no data set {}; known are: {}"
    return [SpecProblem("datasets", words.format(name, listed)) for name in sorted(wrong)]


def _misfits(spec: JobSpec, queue: Queue, shape: Shape) -> list[SpecProblem]:
    """Requests no registered node can ever hold; an empty pool is given the benefit of doubt."""
    if not shape.nodes:
        return []
    pool, model = queue.pool.name, spec.gpu_model or "any"
    if spec.gpu_milli < WHOLE_MILLI and not shape.gpus_per_node:
        of, part = f" of {spec.gpu_model}" if spec.gpu_model else "", format_milli(spec.gpu_milli)
        words = (
            f"pool {pool} has no parts of cards as large as {part} GPU{of}; "
            "ask for a whole GPU, or ask an operator to cut cards into slots"
        )
        return [SpecProblem("gpu_milli", words)]
    if spec.gpus_per_node and not shape.gpus_per_node:
        known = ", ".join(shape.models) or "no GPUs"
        wanted = spec.gpu_model or "GPUs"
        field = "gpu_model" if spec.gpu_model else "gpus_per_node"
        return [SpecProblem(field, f"pool {pool} has no {wanted}; it has {known}")]
    problems = []
    if spec.gpus_per_node > shape.gpus_per_node:
        problems.append(
            SpecProblem(
                "gpus_per_node",
                f"the largest node of pool {pool} has {shape.gpus_per_node} GPUs ({model} model); "
                "ask for fewer per node and more nodes",
            )
        )
    elif spec.nodes.least > shape.nodes_with(spec.gpus_per_node):
        each = spec.gpus_per_node
        such = f" with {each} such GPU{'s' if each > 1 else ''}" if each else ""
        are = shape.nodes_with(each)
        words = f"pool {pool} has {are} node{'' if are == 1 else 's'}{such}; ask for fewer nodes"
        problems.append(SpecProblem("nodes", words))
    if spec.cpus > shape.cpus:
        problems.append(SpecProblem("cpus", f"the largest node of pool {pool} has {shape.cpus}"))
    if spec.memory > shape.memory_mib:
        largest = units.format_size_mib(shape.memory_mib)
        problems.append(SpecProblem("memory", f"the largest node of pool {pool} has {largest}"))
    return problems
