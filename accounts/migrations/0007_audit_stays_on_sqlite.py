"""SQLite refuses to change or delete an event or a seal too; PostgreSQL does since 0003.

Changing a column of these tables on SQLite makes them anew, without their triggers: a migration
that does so has to add them again, and `tests/accounts/test_audit.py` fails until it does.
"""

from django.db import migrations

TABLES = ("auditevent", "auditseal")
TRIGGER = """
CREATE TRIGGER {table}_no_{name} BEFORE {verb} ON accounts_{table}
BEGIN
  SELECT RAISE(ABORT, 'accounts_{table} is append-only');
END
"""
VERBS = (("update", "UPDATE"), ("delete", "DELETE"))


def add_second_line(apps, schema_editor):
    if schema_editor.connection.vendor == "sqlite":
        for table in TABLES:
            for name, verb in VERBS:
                schema_editor.execute(
                    TRIGGER.format(table=table, name=name, verb=verb), params=None
                )


def drop_second_line(apps, schema_editor):
    if schema_editor.connection.vendor == "sqlite":
        for table in TABLES:
            for name, _ in VERBS:
                schema_editor.execute(f"DROP TRIGGER {table}_no_{name}", params=None)


class Migration(migrations.Migration):

    dependencies = [("accounts", "0006_demo")]

    operations = [migrations.RunPython(add_second_line, drop_second_line)]
