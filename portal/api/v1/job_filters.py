"""What a list of jobs over REST is narrowed to."""

from __future__ import annotations

from collections.abc import Mapping

from django.db.models import QuerySet
from django.utils import timezone
from rest_framework.request import Request

from accounts.models import User
from portal.api.errors import BadRequest
from portal.api.operations import Query, choices, whole
from portal.api.v1.job_shapes import JOB_STATES
from portal.forms.grammar.jobs import EXAMPLES, NAME, parse_job_query
from scheduler.models import Job
from scheduler.selectors.jobs import MAX_PK, log_warnings_along, visible_jobs
from scheduler.selectors.ordered.columns import JOB_COLUMNS
from scheduler.selectors.tables.narrowing import JobFilter, check_known, filter_jobs

FILTERS = (
    Query(
        "q", str, f"A filter as on the page: {' '.join(f'{k}:{v}' for k, v in EXAMPLES.items())}."
    ),
    Query("state", str, f"One or more of {', '.join(JOB_STATES)}, separated by commas."),
    Query("team", str, "A team's slug; 404 for one that you do not see."),
    Query("project", str, "team/project; 404 for one that you do not see."),
    Query("owner", str, "A user name, or me for yourself; who has no job you see has none."),
    Query("pool", str, "A pool's name; 404 for none."),
    Query("text", str, "Part of the name, or the job's number."),
    Query("set", int, "The number of an array: its tasks; 404 for one that you do not see."),
    Query("schedule", int, "The number of a schedule: its jobs; 404 for one that you do not see."),
    Query("group", str, "The name of a group of which the newest counts: its jobs that you see."),
    Query("sort", str, f"{', '.join(JOB_COLUMNS)}; with a - before it the highest first."),
)
_TEXTS = ("team", "project", "owner", "pool", "text", "group")


def filtered_jobs(request: Request, viewer: User) -> QuerySet[Job]:
    """Visible jobs as the query narrows them, each with what `show_rows` says of its log; raises
    BadRequest, and NotFound for names of nothing that the viewer sees."""
    sent = {name: request.query_params.get(name, "").strip() for name in _TEXTS}
    _refuse_odd("owner", sent, "is not a user name; write it like alice, or me for yourself")
    _refuse_odd("group", sent, "is not the name of a group; write it like eval/main")
    wanted = JobFilter(
        states=choices(request, "state", JOB_STATES),
        team=sent["team"],
        project=sent["project"],
        owner=sent["owner"],
        pool=sent["pool"],
        text=sent["text"],
        group=sent["group"],
        job_set=whole(request, "set", 0, low=1, high=MAX_PK),
        schedule=whole(request, "schedule", 0, low=1, high=MAX_PK),
    )
    check_known(viewer, wanted)
    said = _filter_of(request.query_params.get("q", ""))
    check_known(viewer, said, "q")
    jobs = filter_jobs(visible_jobs(viewer), wanted, viewer)
    return filter_jobs(jobs, said, viewer).annotate(warnings_=log_warnings_along())


def _refuse_odd(name: str, sent: Mapping[str, str], words: str) -> None:
    """Raises BadRequest for what is no name at all."""
    if sent[name] and not NAME.fullmatch(sent[name]):
        raise BadRequest(f"{name} {words}.", code="bad_query", errors=[(name, words)])


def _filter_of(text: str) -> JobFilter:
    """What `q` says; raises BadRequest naming the term that is wrong."""
    query = parse_job_query(text, now=timezone.now())
    if query.problems:
        raise BadRequest(
            " ".join(query.problems),
            code="bad_query",
            errors=[("q", problem) for problem in query.problems],
        )
    return query.wanted
