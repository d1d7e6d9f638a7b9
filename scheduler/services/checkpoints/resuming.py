"""Which checkpoint the next attempt of a job is offered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.models import Attempt, Job


@dataclass(frozen=True, slots=True)
class Offer:
    """A checkpoint for a new attempt: of which earlier one, and its step.

    `attempt_id` None: there is one, but not where this attempt runs; `problem` says so.
    """

    attempt_id: int | None
    step: int
    problem: str = ""


def resume_offers(first_nodes: Mapping[int, int], jobs: Mapping[int, Job]) -> dict[int, Offer]:
    """The furthest checkpoint that each job's rank 0 should be able to read, in one query.

    `first_nodes`: job to the node of its next rank 0. A folder that the job named may be shared,
    which its node finds out; the folder of a node is read on that node alone. Jobs without any
    confirmed checkpoint are left out.
    """
    taken = (
        Attempt.objects.filter(
            job_id__in=first_nodes, checkpoint_at__isnull=False, placements__rank=0
        )
        .order_by("checkpoint_step", "number")
        .values_list(
            "job_id", "pk", "checkpoint_step", "placements__node_id", "placements__node__name"
        )
        if first_nodes
        else ()
    )
    offers: dict[int, Offer] = {}
    for job_id, attempt_id, step, node_id, node_name in taken:
        is_near = node_id == first_nodes[job_id] or jobs[job_id].spec.get("checkpoint_dir")
        known = offers.get(job_id)
        if is_near:
            offers[job_id] = Offer(attempt_id, step or 0)
        elif known is None or known.attempt_id is None:
            problem = (
                f"The checkpoint of step {step} lies on node {node_name}. Name a checkpoint_dir "
                "that all nodes share to resume anywhere."
            )
            offers[job_id] = Offer(None, step or 0, problem)
    return offers
