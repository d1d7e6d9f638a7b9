"""Many more of every row that a world has, by copies: some beside their pattern, some of their own.

Every even copy stands below the same parents (attempts of one job, members of one team); every odd
one belongs to copies of its parents (another job, with its attempt). So lists grow, and what hangs
on each of their rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.apps import apps
from django.db import connection, models

from scheduler.models import Job, Node

# Between the id of a pattern and of its copies: above every id that a test's world has.
STRIDE = 100_000
_ROOMS = ("accounts", "scheduler", "account")
# One row for ever, or no row of anybody.
_ALONE = {
    "accounts_audithead",
    "accounts_auditseal",
    "accounts_demomark",
    "scheduler_ledgerhead",
    "scheduler_schedulerlease",
    "account_emailconfirmation",
}
# References that stand once only under a condition, which `_VALUES` keeps.
_BESIDE = ("scheduler_attempt.job_id",)
# What cannot be without its own.
_PARTS = {
    "scheduler_requestversion": "scheduler_quotarequest",
    "scheduler_templateversion": "scheduler_jobtemplate",
}
# Of what hangs on these each copy has its own, too, wherever it stands itself.
_WHOLES = {f"scheduler_{name}" for name in ("job", "attempt", "placement", "quotarequest", "node")}
# A node has few cards, an attempt few of a node's, and all of its usage is of one job.
_OWN = {f"scheduler_{name}" for name in ("device.node_id", "allocation.placement_id")}
# Who has more kinds of hardware than this has them in many clusters.
_FEW = {"scheduler_pool": 100, "scheduler_booking": 50}
_WORDS = ("role", "kind", "state", "outcome")
# Columns that say more than their type does. "{0}" is the pattern's own value.
_VALUES = {
    # Rights on copies are of those who have them on the pattern.
    **{
        f"accounts_{kind}groupobjectpermission.{column}": value
        for kind in ("team", "project")
        for column, value in (("group_id", "{0}"), ("content_object_id", f"{{0}} + n * {STRIDE}"))
    },
    "accounts_user_groups.group_id": "{0}",
    "accounts_user_groups.user_id": f"{{0}} + n * {STRIDE}",
    "accounts_team.parent_id": "{0}",
    "accounts_user.email": "CASE {0} WHEN '' THEN '' ELSE {0} || '-' || n END",
    # A job has one attempt that lives.
    "scheduler_attempt.state": "CASE WHEN n % 3 AND n <= {jobs} THEN {0} ELSE 'ended' END",
    "scheduler_attempt.ended_at": "CASE WHEN n % 3 AND n <= {jobs} THEN {0} ELSE assigned_at END",
    "scheduler_attempt.released_at": (
        "CASE WHEN n % 3 AND n <= {jobs} THEN {0} ELSE assigned_at END"
    ),
    # So few may be open at once.
    "scheduler_announcement.ended_at": "CASE WHEN n < 5 THEN {0} ELSE from_at END",
    # Each on a node of its own: nobody books one twice.
    "scheduler_booking.node_ids": (
        f"json_array(json_extract({{0}}, '$[0]') + ((n - 1) % {{nodes}} + 1) * {STRIDE})"
    ),
    # One after the other: a node is in one at a time.
    **{
        f"scheduler_maintenancewindow.{column}": (
            "strftime('%Y-%m-%d %H:%M:%f', {0}, '+' || (3 * n) || ' hours')"
        )
        for column in ("from_at", "until_at")
    },
    # Two spans of one allocation may begin a multiple of 97 seconds apart.
    "scheduler_usageentry.period_start": (
        "strftime('%Y-%m-%d %H:%M:%f', {0}, '-' || (97 * n + id / 1000.0) || ' seconds')"
    ),
    "scheduler_period.name": "strftime('%Y-%m', {0} || '-01', '-' || n || ' months')",
}


class Growth:
    """A world that is made larger again and again; `empty`: tables that it has no row of."""

    def __init__(self) -> None:
        found = [m for m in apps.get_models(include_auto_created=True) if _grows(m)]
        self._rows = {model: _count(model) for model in found}
        self._times = dict.fromkeys(found, 0)
        self.empty = {_table(model) for model, rows in self._rows.items() if not rows}

    def to(self, wanted: int) -> dict[str, int]:
        """About so many rows of every table that had one, and how many there are now."""
        before = dict(self._times)
        for model, rows in self._rows.items():
            if rows:
                self._times[model] = max(before[model], -(-wanted // rows) - 1)
        for model in self._rows:
            most = _FEW.get(_table(model), self._times[model])
            self._times[model] = min(most, *self._most(model))
        with connection.cursor() as cursor:
            for model, times in self._times.items():
                if times > before[model]:
                    cursor.execute(self._copying(model, before[model] + 1, times))
            cursor.execute("ANALYZE")
        return {_table(model): _count(model) for model in self._times if self._rows[model]}

    def _most(self, model: type[models.Model]) -> Iterator[int]:
        """As many times as each parent of which a row may have one alone."""
        whole = _PARTS.get(_table(model))
        yield from (times for one, times in self._times.items() if _table(one) == whole)
        if whole is None:
            yield self._times[model]
        fields: Any = model._meta.concrete_fields
        for field in fields:
            if field.is_relation and self._has_its_own(model, field):
                yield self._times[field.related_model]

    def _has_its_own(self, model: type[models.Model], field: models.Field) -> bool:
        """Whether no two rows may have the same parent."""
        if f"{_table(model)}.{field.column}" in _BESIDE:
            return False
        firsts = (_first_of(model, names) for names in _once(model))
        return bool(self._rows.get(field.related_model)) and (field.unique or field.name in firsts)

    def _copying(self, model: type[models.Model], first: int, last: int) -> str:
        columns = model._meta.concrete_fields
        names = ", ".join(f'"{field.column}"' for field in columns)
        values = ", ".join(self._value(model, field) for field in columns)
        key = f'"{model._meta.pk.column}"'
        patterns = f"{key} NOT GLOB '*-[0-9]*'" if _is_text(model._meta.pk) else f"{key} < {STRIDE}"
        return (
            f"INSERT INTO {_table(model)} ({names}) "
            f"WITH RECURSIVE series(n) AS (SELECT {first} UNION ALL "
            f"SELECT n + 1 FROM series WHERE n < {last}) "
            f"SELECT {values} FROM {_table(model)}, series WHERE {patterns}"
        )

    def _value(self, model: type[models.Model], field: models.Field) -> str:
        own = f'"{field.column}"'
        said = _VALUES.get(f"{_table(model)}.{field.column}")
        if said is not None:
            times = self._times
            return said.format(own, jobs=times[Job], nodes=times[Node])
        if field.is_relation:
            return self._parent(model, field, own)
        if field.unique or (
            _table(model) not in _PARTS and any(field.name in names for names in _once(model))
        ):
            return _another(field, own)
        return own

    def _parent(self, model: type[models.Model], field: models.Field, own: str) -> str:
        """The copy of the parent, or the parent itself."""
        times = self._times.get(field.related_model, 0)
        if not times:
            return own
        copy = _another(field, own, f"((n - 1) % {times} + 1)")
        is_own = _table(model) in _PARTS or f"{_table(model)}.{field.column}" in _OWN
        if is_own or self._has_its_own(model, field):
            return copy
        return f"CASE n % {_turns(model)} WHEN 0 THEN {own} ELSE {copy} END"


def _grows(model: type[models.Model]) -> bool:
    return model._meta.app_label in _ROOMS and model._meta.managed and _table(model) not in _ALONE


def _table(model: type[models.Model]) -> str:
    return model._meta.db_table


def _count(model: type[models.Model]) -> int:
    return int(model._base_manager.count())


def _once(model: type[models.Model]) -> Iterator[tuple[str, ...]]:
    """Names of fields that together stand once."""
    yield from model._meta.unique_together
    for one in model._meta.constraints:
        if isinstance(one, models.UniqueConstraint):
            yield tuple(one.fields) or tuple(_columns(one.expressions))


def _turns(model: type[models.Model]) -> int:
    """Every how manieth copy stands beside its pattern."""
    parents = {_table(f.related_model) for f in model._meta.concrete_fields if f.is_relation}
    return 3 if parents & _WHOLES else 2


def _columns(expressions: Iterable[Any]) -> Iterator[str]:
    for one in expressions:
        below = getattr(one, "get_source_expressions", None)
        if below is None or isinstance(one, models.F):
            yield str(vars(one)["name"])
        else:
            yield from _columns(below())


def _first_of(model: type[models.Model], names: tuple[str, ...]) -> str | None:
    """Of fields that are all references the one that must be another one; else none must."""
    fields = [model._meta.get_field(name) for name in names]
    parents = [field.name for field in fields if field.is_relation]
    others = [field for field in fields if not field.is_relation and not _is_word(field)]
    return parents[0] if parents and not others else None


def _is_word(field: models.Field) -> bool:
    """Whether it has one of a few values."""
    return isinstance(field, models.BooleanField) or bool(field.choices) or field.name in _WORDS


def _is_text(field: Any) -> bool:
    return isinstance(field.target_field if field.is_relation else field, models.CharField)


def _another(field: Any, own: str, number: str = "n") -> str:
    """A value beside the pattern's own, another one for every copy."""
    if field.is_relation:
        return _another(field.target_field, own, number)
    if _is_word(field):
        return own
    if isinstance(field, models.DateTimeField):
        step = "3600" if field.name == "hour" else "97"
        return f"strftime('%Y-%m-%d %H:%M:%f', {own}, '-' || ({step} * {number}) || ' seconds')"
    if isinstance(field, models.DateField):
        return f"date({own}, '-' || {number} || ' days')"
    if isinstance(field, models.CharField | models.TextField):
        return f"{own} || '-' || {number}"
    return f"{own} + {number} * {STRIDE}"
