"""SQLite refuses to change the books too; PostgreSQL does since 0008.

Changing a column of these tables on SQLite makes them anew, without their triggers: a migration
that does so has to add them again, and `tests/services/test_books_stay.py` fails until it does.
"""

from django.db import migrations

APPEND_ONLY = ("ledgerentry", "periodclose", "statement", "statementline")
SEGMENT = (
    "id device_id pool_id flavour bucket attempt_id project_id team_id cause start_s".split()
)
CHANGED = " OR ".join(f"NEW.{column} IS NOT OLD.{column}" for column in SEGMENT)
OTHERS = {
    "segment_ends_once": f"""
BEFORE UPDATE ON scheduler_devicesegment
WHEN OLD.end_s IS NOT NULL OR {CHANGED}
BEGIN
  SELECT RAISE(ABORT, 'a segment is only ever ended, once');
END
""",
    "segment_stays": """
BEFORE DELETE ON scheduler_devicesegment
BEGIN
  SELECT RAISE(ABORT, 'a segment is only ever ended, once');
END
""",
    "line_stays_as_it_is": """
BEFORE UPDATE ON scheduler_usageline
BEGIN
  SELECT RAISE(ABORT, 'a line of a closed month does not change');
END
""",
    "line_of_closed_month": """
BEFORE DELETE ON scheduler_usageline
WHEN EXISTS (
  SELECT 1 FROM scheduler_period WHERE id = OLD.period_id AND state IN ('closed', 'reopened')
)
BEGIN
  SELECT RAISE(ABORT, 'a line of a closed month does not change');
END
""",
}


def triggers():
    """Name and words of each."""
    for table in APPEND_ONLY:
        for verb in ("UPDATE", "DELETE"):
            yield f"{table}_no_{verb.lower()}", f"""
BEFORE {verb} ON scheduler_{table}
BEGIN
  SELECT RAISE(ABORT, 'scheduler_{table} is append-only');
END
"""
    yield from OTHERS.items()


def add_second_line(apps, schema_editor):
    if schema_editor.connection.vendor == "sqlite":
        for name, words in triggers():
            schema_editor.execute(f"CREATE TRIGGER {name} {words}", params=None)


def drop_second_line(apps, schema_editor):
    if schema_editor.connection.vendor == "sqlite":
        for name, _ in triggers():
            schema_editor.execute(f"DROP TRIGGER {name}", params=None)


class Migration(migrations.Migration):

    dependencies = [("scheduler", "0080_racks_at_a_close")]

    operations = [migrations.RunPython(add_second_line, drop_second_line)]
