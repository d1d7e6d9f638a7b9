from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0012_rates_without_overlap"),
        ("scheduler", "0068_commit_at_submit"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("ended_at__isnull", False)),
                fields=["pool", "-ended_at"],
                name="job_by_pool_ended",
            ),
        ),
    ]
