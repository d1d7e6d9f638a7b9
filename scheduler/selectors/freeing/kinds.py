"""What a job is alike with, read for thousands at once."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from django.db.models import Func, TextField
from django.db.models.expressions import Combinable

from scheduler.engine.learning import Kind, kind_of

# A longer text is a script's; it is taken apart each time.
_MOST_KEPT = 400


class _Program(Func):
    """Of a spec its command, its script and its session's program, as the text of a JSON list."""

    arity = 1
    output_field = TextField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """As SQLite says it, which takes a spec apart for each question: this is one."""
        template = "JSON_EXTRACT(%(expressions)s, '$.command', '$.script', '$.session.app')"
        return self.as_sql(compiler, connection, template=template, **context)

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """As PostgreSQL says it."""
        spec = "%(expressions)s"
        parts = f"{spec} -> 'command', {spec} -> 'script', {spec} #> '{{session,app}}'"
        template = f"JSON_BUILD_ARRAY({parts})::text"
        return self.as_sql(compiler, connection, template=template, **context)


def kind_columns(job: str = "") -> list[str | Combinable]:
    """The columns that `kind_in` reads; `job` is the way to the job, such as `attempt__job__`."""
    plain = (f"{job}project_id", f"{job}nodes", f"{job}gpus_per_node")
    template = f"{job}template_use__version__template"
    return [*plain, _Program(f"{job}spec"), template]


def kind_in(columns: list[Any]) -> Kind:
    """Equals `kind_of` with the parts of the spec."""
    read = _kept if len(columns[3]) <= _MOST_KEPT else _read
    return read(*columns)


def _read(project: int, nodes: int, gpus: int, program: str, template: int | None) -> Kind:
    command, script, app = json.loads(program)
    return kind_of(project, nodes, gpus, command, script, app, template)


_kept = lru_cache(maxsize=8192)(_read)
