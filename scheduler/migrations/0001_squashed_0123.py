"""A new database gets the tables of steps 1 to 123 in one go (record 0104)."""

from importlib import import_module

from django.conf import settings
from django.db import migrations

from accounts.migrations._whole import Whole, steps

STEPS = steps("scheduler.migrations", "0123_warnings_counted")
BOOKS = import_module("scheduler.migrations.0008_books")
PARTS = import_module("scheduler.migrations.0026_parts_of_cards")
BOOKS_ON_SQLITE = import_module("scheduler.migrations.0081_the_books_stay_on_sqlite")
STRANGERS = import_module("scheduler.migrations.0091_strangers_of_parts_alone")


class Migration(migrations.Migration):

    initial = True
    replaces = [("scheduler", step.__module__.rpartition(".")[2]) for step in STEPS]
    dependencies = [
        ("accounts", "0001_squashed_0020"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [
        Whole([operation for step in STEPS for operation in step.operations]),
        migrations.RunPython(BOOKS.add_second_line),
        migrations.RunPython(PARTS.hold),
        migrations.RunPython(BOOKS_ON_SQLITE.add_second_line),
        migrations.RunPython(STRANGERS.ask_of_parts),
    ]
