"""Foreign keys whose index another one begins with have none of their own any more.

Not of log pieces, usage and deliveries: an index of one column alone has its rows in the order of
their numbers, too, and there are queries that go by it. Only the indexes go: changing a column on
SQLite would make its table anew.
"""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

SAID_TWICE = (
    ("attempt", "job"),
    ("dayofreadings", "attempt"),
    ("devicehour", "attempt"),
    ("devicehour", "device"),
    ("devicesample", "attempt"),
    ("devicesample", "device"),
    ("hostsample", "node"),
    ("job", "owner"),
    ("job", "project"),
    ("notification", "person"),
    ("outputfile", "job"),
    ("placement", "attempt"),
)


def drop(apps, schema_editor):
    """Each index of that column alone."""
    connection = schema_editor.connection
    for model, field in SAID_TWICE:
        meta = apps.get_model("scheduler", model)._meta
        column = meta.get_field(field).column
        with connection.cursor() as cursor:
            found = connection.introspection.get_constraints(cursor, meta.db_table)
        for name, one in found.items():
            if one["index"] and not one["unique"] and one["columns"] == [column]:
                schema_editor.execute(f"DROP INDEX {schema_editor.quote_name(name)}")


def make(apps, schema_editor):
    """Each as Django makes it."""
    for model, field in SAID_TWICE:
        made = apps.get_model("scheduler", model)
        schema_editor.execute(
            schema_editor._create_index_sql(made, fields=[made._meta.get_field(field)])
        )


class Migration(migrations.Migration):

    dependencies = [
        ('scheduler', '0125_span_of_readings'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(drop, make)],
            state_operations=[
        migrations.AlterField(
            model_name='attempt',
            name='job',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='attempts', to='scheduler.job'),
        ),
        migrations.AlterField(
            model_name='dayofreadings',
            name='attempt',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='scheduler.attempt'),
        ),
        migrations.AlterField(
            model_name='devicehour',
            name='attempt',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='hours', to='scheduler.attempt'),
        ),
        migrations.AlterField(
            model_name='devicehour',
            name='device',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='hours', to='scheduler.device'),
        ),
        migrations.AlterField(
            model_name='devicesample',
            name='attempt',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='samples', to='scheduler.attempt'),
        ),
        migrations.AlterField(
            model_name='devicesample',
            name='device',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='samples', to='scheduler.device'),
        ),
        migrations.AlterField(
            model_name='hostsample',
            name='node',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='samples', to='scheduler.node'),
        ),
        migrations.AlterField(
            model_name='job',
            name='owner',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AlterField(
            model_name='job',
            name='project',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to='accounts.project'),
        ),
        migrations.AlterField(
            model_name='notification',
            name='person',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AlterField(
            model_name='outputfile',
            name='job',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='outputs', to='scheduler.job'),
        ),
        migrations.AlterField(
            model_name='placement',
            name='attempt',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='placements', to='scheduler.attempt'),
        ),
            ],
        ),
    ]
