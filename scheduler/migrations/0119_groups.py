from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0118_watches_and_late_readings")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="group_name",
            field=models.CharField(blank=True, max_length=64, null=True),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                fields=["owner", "group_name"],
                condition=models.Q(("ended_at__isnull", True), ("group_name__isnull", False)),
                name="job_open_in_group",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                fields=["group_name", "-id"],
                condition=models.Q(("group_name__isnull", False)),
                name="job_by_group",
            ),
        ),
    ]
