"""Which checkpoint the next attempt of a job is offered, and which node is its first for that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.models import Attempt, Job
from scheduler.services.rows.placed import PlacedOn

_COLUMNS = (
    *("job_id", "pk", "checkpoint_step", "placements__node_id", "placements__node__name"),
    *("resumes_id", "resume_from", "resume_problem"),
)


@dataclass(frozen=True, slots=True)
class Offer:
    """A checkpoint for a new attempt: of which earlier one, and its step.

    `attempt_id` None: there is one, but not where this attempt runs; `problem` says so. `node_id`:
    the node in whose own folder it lies, None for one that may be read anywhere.
    """

    attempt_id: int | None
    step: int
    problem: str = ""
    node_id: int | None = None


def resume_offers(
    places: Mapping[int, Sequence[PlacedOn]], jobs: Mapping[int, Job]
) -> dict[int, Offer]:
    """The furthest checkpoint that each job's rank 0 should be able to read, in one query.

    `places`: job to where its ranks go. A folder that the job named may be shared, which its node
    finds out; the folder of a node is read on that node alone, so every node that can be the first
    counts. What an attempt could not read, which then saved something itself, is not offered again.
    Jobs without any confirmed checkpoint are left out.
    """
    taken = (
        Attempt.objects.filter(job_id__in=places, checkpoint_at__isnull=False, placements__rank=0)
        .order_by("checkpoint_step", "number")
        .values_list(*_COLUMNS)
        if places
        else ()
    )
    useless = {resumes for *_, resumes, read, problem in taken if problem and not read}
    near = {job_id: {place.node_id for place in may_lead(at)} for job_id, at in places.items()}
    offers: dict[int, Offer] = {}
    for job_id, attempt_id, step, node_id, node_name, *_ in taken:
        known = offers.get(job_id)
        if attempt_id in useless:
            continue
        if jobs[job_id].spec.get("checkpoint_dir"):
            offers[job_id] = Offer(attempt_id, step or 0)
        elif node_id in near[job_id]:
            offers[job_id] = Offer(attempt_id, step or 0, node_id=node_id)
        elif known is None or known.attempt_id is None:
            problem = (
                f"The checkpoint of step {step} lies on node {node_name}. Name a checkpoint_dir "
                "that all nodes share to resume anywhere."
            )
            offers[job_id] = Offer(None, step or 0, problem)
    return offers


def led_by(offer: Offer | None, places: tuple[PlacedOn, ...]) -> tuple[PlacedOn, ...]:
    """The same places, that of the offered checkpoint's node first; the others keep their order.

    Plans choose nodes, and do not know in whose folder the work lies.
    """
    first = next((place for place in places if offer and place.node_id == offer.node_id), None)
    if first is None:
        return places
    others = (place for place in places if place is not first)
    return tuple(replace(place, rank=rank) for rank, place in enumerate((first, *others)))


def may_lead(places: Sequence[PlacedOn]) -> list[PlacedOn]:
    """Those whose share is as large as the first one's: a smaller share comes last."""
    sizes = {place.rank: (len(place.device_ids), place.cpus, place.memory_mib) for place in places}
    return [place for place in places if sizes[place.rank] == sizes[0]]
