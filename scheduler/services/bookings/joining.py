"""The booking a submitted job names, checked: it may run there, and it fits."""

from __future__ import annotations

from datetime import datetime

from accounts.models import Project, User
from scheduler.models import Booking, Queue
from scheduler.selectors.calendar.bookings import find_open_booking
from scheduler.services.rows.locking import keep_booking
from scheduler.spec import JobSpec, SpecInvalid, SpecProblem
from scheduler.states import BookingState


def resolve_booking(
    actor: User, project: Project, queue: Queue, spec: JobSpec, *, now: datetime
) -> Booking | None:
    """The booking that a spec names by name or number; raises SpecInvalid.

    It stays open and as it is until the caller's transaction ends.
    """
    if not spec.booking:
        return None
    booking = find_open_booking(actor, spec.booking, now=now)
    if booking is not None and keep_booking(booking.pk):
        booking = find_open_booking(actor, str(booking.pk), now=now)
    if booking is None:
        words = f"there is no booking {spec.booking} for you that is not over"
        raise SpecInvalid([SpecProblem("booking", words)])
    problems = _misfits(booking, project, queue, spec)
    if problems:
        raise SpecInvalid(problems)
    return booking


def _misfits(booking: Booking, project: Project, queue: Queue, spec: JobSpec) -> list[SpecProblem]:
    problems = []

    def refuse(field: str, words: str) -> None:
        problems.append(SpecProblem(field, words))

    if booking.project_id != project.pk and booking.team_id != project.team_id:
        refuse("booking", f"{booking} is for {booking.owner_path}, not for {project.path}")
    if booking.pool_id != queue.pool_id:
        refuse("pool", f"{booking} is of pool {booking.pool.name}; name that pool")
    if spec.nodes.least > booking.nodes:
        refuse("nodes", f"{booking} has {booking.nodes}; ask for fewer nodes")
    part = booking.gpus_per_node
    if part and spec.gpus_per_node > part:
        refuse("gpus_per_node", f"{booking} has {part} GPUs of each node; ask for fewer")
    if part and spec.exclusive:
        refuse("exclusive", f"{booking} has parts of nodes only; book whole nodes")
    if booking.gpu_model and spec.gpu_model and spec.gpu_model != booking.gpu_model:
        refuse("gpu_model", f"{booking} is of {booking.gpu_model}; ask for that, or for any")
    if booking.gpu_model and spec.gpu_models and booking.gpu_model not in spec.gpu_models:
        refuse("gpu_models", f"{booking} is of {booking.gpu_model}; name that too, or none")
    if spec.begin is not None and spec.begin >= booking.until_at:
        refuse("begin", f"{booking} is {BookingState.ENDED} by then; begin earlier")
    return problems
