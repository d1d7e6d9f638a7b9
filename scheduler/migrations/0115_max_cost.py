from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0114_watched_jobs")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="max_cost_steps",
            field=models.PositiveBigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="attempt",
            name="cost_limit_s",
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                fields=["state"],
                condition=models.Q(("max_cost_steps__isnull", False)),
                name="job_with_max_cost",
            ),
        ),
    ]
