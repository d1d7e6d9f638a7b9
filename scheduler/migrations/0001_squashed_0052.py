"""A new database gets the tables of steps 1 to 52 in one go (record 0104)."""

from importlib import import_module

from django.conf import settings
from django.db import migrations

from accounts.migrations._whole import Whole, steps

STEPS = steps("scheduler.migrations", "0052_caps_of_sessions")
BOOKS = import_module("scheduler.migrations.0008_books")
PARTS = import_module("scheduler.migrations.0026_parts_of_cards")


class Migration(migrations.Migration):

    initial = True
    replaces = [("scheduler", step.__module__.rpartition(".")[2]) for step in STEPS]
    dependencies = [
        ("accounts", "0001_squashed_0009"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [
        Whole([operation for step in STEPS for operation in step.operations]),
        migrations.RunPython(BOOKS.add_second_line),
        migrations.RunPython(PARTS.hold),
    ]
