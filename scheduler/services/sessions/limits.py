"""How long a session may run and rest, by the cluster's policy."""

from __future__ import annotations

from scheduler.conf import load_conf
from scheduler.spec import JobSpec, SpecInvalid, SpecProblem
from scheduler.spec.units import format_duration


def refuse_session(spec: JobSpec) -> None:
    """Raises SpecInvalid for a session that would run, or rest, for longer than allowed."""
    if spec.session is None:
        return
    conf = load_conf()
    found = (
        ("time_limit", spec.time_limit, conf.session_longest_s, "may run"),
        ("session.idle_stop", spec.session.idle_stop, conf.session_idle_s, "may be idle"),
    )
    problems = [
        SpecProblem(
            field,
            f"sessions {words} for {format_duration(most)} at most here; ask for less",
        )
        for field, asked, most, words in found
        if asked > most
    ]
    if problems:
        raise SpecInvalid(problems)
