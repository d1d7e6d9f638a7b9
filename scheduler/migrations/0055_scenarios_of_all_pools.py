"""A scenario may be of all pools together."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0053_reservations")]

    operations = [
        migrations.AlterField(
            model_name="scenario",
            name="pool",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="scenarios",
                to="scheduler.pool",
            ),
        ),
    ]
