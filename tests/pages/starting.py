"""Rows of the matrix for what jobs start from: texts, drafts and templates."""

from __future__ import annotations

from typing import Any

_ALL = "200 200 200 200 200 200 200"
_TEAM = "200 200 200 200 404 404 200"
_LEADS = "403 403 302 403 404 404 302"
_NEW = {"name": "new", "team": "vision", "spec": "retries: 2", "rules": "tier: locked"}
_MORE = {"spec": "retries: 2", "note": "more"}
_SEES = "200 200 200 200 200 404 200"
_MOVES = "302 403 302 403 302 404 302"
_REPEATED = {
    "name": "new",
    "rule": "@daily",
    "zone": "UTC",
    "overlap": "skip",
    "most_open": "3",
    "late_within_s": "60",
    "pause_after": "5",
    "spec": "name: x\nproject: vision/digits\nscript: 'true'",
}
_FORK = {"team": "vision", "name": "mine"}

# As the fields of `matrix.Row`.
ROWS: tuple[tuple[Any, ...], ...] = (
    ("jobs:start", _ALL),
    ("jobs:start", _ALL, "POST", (), {"text": "name: x"}),
    ("jobs:draft_drop", "302 404 404 404 404 404 404", "POST", ("job_draft",)),
    ("schedules:list", _ALL),
    ("schedules:new", _ALL),
    ("schedules:new", "302 302 302 200 200 200 302", "POST", (), _REPEATED),
    ("schedules:detail", _SEES, "GET", ("job_schedule",)),
    ("schedules:change", "200 403 403 403 403 404 403", "GET", ("job_schedule",)),
    ("schedules:change", "302 403 403 403 403 404 403", "POST", ("job_schedule",), _REPEATED),
    ("schedules:pause", _MOVES, "POST", ("job_schedule",), {"reason": "x"}),
    ("schedules:resume", "302 403 403 403 403 404 403", "POST", ("job_schedule",)),
    ("schedules:run", "302 403 403 403 403 404 403", "POST", ("job_schedule",)),
    ("schedules:take_over", "302 403 302 403 403 404 302", "POST", ("job_schedule",)),
    ("schedules:delete", _MOVES, "POST", ("job_schedule",), {"reason": "x"}),
    ("templates:list", _ALL),
    ("templates:new", "403 403 200 403 403 403 200"),
    ("templates:new", "403 403 302 403 403 403 302", "POST", (), _NEW),
    ("templates:detail", _TEAM, "GET", ("template",)),
    ("templates:version", "403 403 200 403 404 404 200", "GET", ("template",)),
    ("templates:version", _LEADS, "POST", ("template",), _MORE),
    ("templates:fork", _LEADS, "POST", ("template",), _FORK),
    ("templates:retire", _LEADS, "POST", ("template",)),
)
