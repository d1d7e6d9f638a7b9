"""Rows of the matrix for what jobs start from: texts, drafts and templates."""

from __future__ import annotations

from typing import Any

_ALL = "200 200 200 200 200 200 200"
_TEAM = "200 200 200 200 404 404 200"
_LEADS = "403 403 302 403 404 404 302"
_NEW = {"name": "new", "team": "vision", "spec": "retries: 2", "rules": "tier: locked"}
_MORE = {"spec": "retries: 2", "note": "more"}
_FORK = {"team": "vision", "name": "mine"}

# As the fields of `matrix.Row`.
ROWS: tuple[tuple[Any, ...], ...] = (
    ("jobs:start", _ALL),
    ("jobs:start", _ALL, "POST", (), {"text": "name: x"}),
    ("jobs:draft_drop", "302 404 404 404 404 404 404", "POST", ("job_draft",)),
    ("templates:list", _ALL),
    ("templates:new", "403 403 200 403 403 403 200"),
    ("templates:new", "403 403 302 403 403 403 302", "POST", (), _NEW),
    ("templates:detail", _TEAM, "GET", ("template",)),
    ("templates:version", "403 403 200 403 404 404 200", "GET", ("template",)),
    ("templates:version", _LEADS, "POST", ("template",), _MORE),
    ("templates:fork", _LEADS, "POST", ("template",), _FORK),
    ("templates:retire", _LEADS, "POST", ("template",)),
)
