"""Scenarios of the simulator, for those who run the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db.models import QuerySet

from accounts.errors import Forbidden, NotFound
from accounts.models import User
from accounts.permissions import is_operator
from scheduler.models import Pool, Scenario
from scheduler.selectors.traces import pools_with_gpus, window_of
from scheduler.simulator.traces.writing import trace_lines, trace_of

# Of a trace that is asked for over the web.
MOST_LINES = 20_000


def visible_scenarios(viewer: User) -> QuerySet[Scenario]:
    """Operators see everybody's, the newest first."""
    rows = Scenario.objects.select_related("pool", "asked_by")
    return rows if is_operator(viewer) else rows.none()


def past_trace(viewer: User, pool: Pool | None, hours: int, *, until: datetime) -> Iterator[str]:
    """What ran in the last hours in a pool, or in all, as lines of a job trace: no names of people
    or jobs. The newest of very many. Raises Forbidden.
    """
    if not is_operator(viewer):
        raise Forbidden("Only operators take out what others ran. Ask one of them.")
    pools = [pool] if pool else pools_with_gpus()
    if not pools:
        return iter(())
    window = window_of(pools, until - timedelta(hours=hours), until, most_jobs=MOST_LINES)
    trace = trace_of(window.workload, window.pools, window.teams)
    return trace_lines(trace, window.past)


def get_visible_scenario(viewer: User, pk: int) -> Scenario:
    """Raises NotFound."""
    found = visible_scenarios(viewer).filter(pk=pk).first()
    if found is None:
        raise NotFound("There is no such scenario for you.")
    return found
