"""Of which model devices were, and how many jobs a day had that none before it had."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0014_cost_centres"),
        ("scheduler", "0082_days_are_counted_anew"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="DayOfJobs",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("device_model", models.CharField(blank=True, max_length=96)),
                ("day", models.DateTimeField()),
                ("before", models.DateTimeField(null=True)),
                ("jobs", models.BigIntegerField()),
                ("upto", models.BigIntegerField(db_index=True)),
            ],
        ),
        migrations.RemoveConstraint(
            model_name="dayofuse",
            name="day_of_use_once",
        ),
        migrations.AddField(
            model_name="dayofuse",
            name="device_model",
            field=models.CharField(default="", max_length=96),
            preserve_default=False,
        ),
        migrations.AddConstraint(
            model_name="dayofuse",
            constraint=models.UniqueConstraint(
                fields=("project", "day", "person", "device_model", "unit_price", "upto"),
                name="day_of_use_once",
            ),
        ),
        migrations.AddField(
            model_name="dayofjobs",
            name="person",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="dayofjobs",
            name="project",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to="accounts.project"
            ),
        ),
        migrations.AddIndex(
            model_name="dayofjobs",
            index=models.Index(fields=["project", "device_model", "day"], name="jobs_of_days"),
        ),
    ]
