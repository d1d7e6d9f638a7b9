"""The other half of the step before: a table is not altered with rows just written to it."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0056_notices_by_request")]

    operations = [
        migrations.RemoveConstraint(model_name="grantnotice", name="grant_notice_once"),
        migrations.RemoveField(model_name="grantnotice", name="grant"),
        migrations.AlterField(
            model_name="grantnotice",
            name="request",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="scheduler.quotarequest",
            ),
        ),
        migrations.AddConstraint(
            model_name="grantnotice",
            constraint=models.UniqueConstraint(
                fields=["request", "person", "days"], name="end_notice_once"
            ),
        ),
    ]
