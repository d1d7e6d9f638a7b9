"""What is sent to the operations about templates and schedules, as in `writing.py`."""

from __future__ import annotations

from typing import Any

_JOB = {"name": "x", "project": "{path}", "script": "true"}
SENT: dict[str, tuple[str, dict[str, Any]]] = {
    "post schedules/": ("", {"name": "x", "rule": "@daily", "spec": _JOB}),
    "post schedules/<int:pk>/": ("job_schedule", {"name": "y"}),
    "post schedules/<int:pk>/delete/": ("job_schedule", {"reason": "x"}),
    "post schedules/<int:pk>/pause/": ("job_schedule", {"reason": "x"}),
    "post schedules/<int:pk>/resume/": ("job_schedule", {}),
    "post schedules/<int:pk>/run/": ("job_schedule", {}),
    "post schedules/<int:pk>/take-over/": ("job_schedule", {}),
    "post templates/": ("", {"team": "{team}", "name": "x", "spec": {"retries": 1}}),
    "post templates/<slug:slug>/versions/": ("template", {"spec": {"retries": 1}}),
    "post templates/<slug:slug>/retire/": ("template", {}),
    "post templates/<slug:slug>/fork/": ("template", {"team": "{team}"}),
}
