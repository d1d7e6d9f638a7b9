"""Sums of days are made again from the entries, now with models of devices and numbers of jobs.

Until they are, pages add the entries up one by one: slower, and the same.
"""

from django.db import migrations


def forget(apps, schema_editor):
    for name in ("DayOfUse", "DaysCounted"):
        apps.get_model("scheduler", name).objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0081_the_books_stay_on_sqlite")]

    operations = [migrations.RunPython(forget, migrations.RunPython.noop)]
