"""Exit codes, and the failures that carry them. The codes are stable; scripts rely on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

OK = 0
USER_FAILURE = 1  # the job failed by its own fault
USAGE = 2  # wrong options, or input the server does not accept
NOT_FOUND = 3
NOT_ALLOWED = 4  # not signed in, or not yours to do
CONFLICT = 5  # the thing is not in a state that allows it
UNREACHABLE = 69  # the server does not answer, or answers nonsense
TRY_AGAIN = 75  # not your fault: busy server, lost node, preempted job
TIMED_OUT = 124
CANCELLED = 130
READER_GONE = 141  # as of a tool that SIGPIPE ended

_OF_STATUS = {401: NOT_ALLOWED, 403: NOT_ALLOWED, 404: NOT_FOUND, 409: CONFLICT, 412: CONFLICT}
_TRY_AGAIN_STATUSES = frozenset({408, 429, 502, 503, 504})
_OF_FAILURE = {
    "user_code": USER_FAILURE,
    "user_resource": USER_FAILURE,
    "user_config": USER_FAILURE,
    "hang": USER_FAILURE,
    "unknown": USER_FAILURE,
    "timeout": TIMED_OUT,
}


class Failure(Exception):
    """What happened, what to do next, and the exit code that says it to scripts."""

    def __init__(
        self,
        what: str,
        *,
        code: int = USAGE,
        remedy: str = "",
        details: Sequence[str] = (),
        request_id: str = "",
    ) -> None:
        super().__init__(what)
        self.what = what
        self.code = code
        self.remedy = remedy
        self.details = tuple(details)
        self.request_id = request_id


def code_of_status(status: int) -> int:
    """The exit code for an HTTP status of 400 and above."""
    if status in _TRY_AGAIN_STATUSES:
        return TRY_AGAIN
    if status >= 500:
        return UNREACHABLE
    return _OF_STATUS.get(status, USAGE)


def code_of_end(job: Mapping[str, Any]) -> int:
    """The exit code that mirrors how a final job ended."""
    if job["state"] == "succeeded":
        return OK
    if job["state"] == "cancelled":
        return CANCELLED
    return _OF_FAILURE.get((job["end"] or {}).get("failure", ""), TRY_AGAIN)
