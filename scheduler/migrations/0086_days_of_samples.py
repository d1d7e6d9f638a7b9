"""For how many days a project keeps the readings of GPUs of its jobs."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0083_days_know_models_and_jobs")]

    operations = [
        migrations.AddField(
            model_name="retention",
            name="sample_days",
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
    ]
