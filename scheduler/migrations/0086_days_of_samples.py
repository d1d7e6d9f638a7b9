"""For how many days a project keeps the readings of GPUs of its jobs."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0084_tables_in_order")]

    operations = [
        migrations.AddField(
            model_name="retention",
            name="sample_days",
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
    ]
