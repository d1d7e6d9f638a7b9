"""A new database gets the tables of steps 1 to 20 in one go (record 0104)."""

from importlib import import_module

from django.db import migrations

from accounts.migrations._whole import Whole, steps

STEPS = steps("accounts.migrations", "0020_spent_keys")
AUDIT = import_module("accounts.migrations.0003_audit")
AUDIT_ON_SQLITE = import_module("accounts.migrations.0007_audit_stays_on_sqlite")
RATES = import_module("accounts.migrations.0012_rates_without_overlap")
PASTS = import_module("accounts.migrations.0014_cost_centres")


class Migration(migrations.Migration):

    initial = True
    replaces = [("accounts", step.__module__.rpartition(".")[2]) for step in STEPS]
    dependencies = [("auth", "0012_alter_user_first_name_max_length")]
    operations = [
        Whole([operation for step in STEPS for operation in step.operations]),
        migrations.RunPython(AUDIT.add_second_line),
        migrations.RunPython(AUDIT_ON_SQLITE.add_second_line),
        migrations.RunPython(RATES.hold),
        migrations.RunPython(PASTS.hold),
    ]
