"""What the nightly check of live data found, and the news of a break."""

from django.db import migrations, models

KINDS = [
    ("job_succeeded", "Job finished"),
    ("job_failed", "Job failed"),
    ("job_cancelled", "Job cancelled"),
    ("job_preempted", "Job interrupted"),
    ("request_waiting", "Request waits for you"),
    ("request_decided", "Request answered"),
    ("budget", "Budget warning"),
    ("session_idle", "Idle session"),
    ("month_close", "Month closed or not"),
    ("promise_broken", "Promise broken"),
]


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0086_days_of_samples")]

    operations = [
        migrations.CreateModel(
            name="InvariantCheck",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField()),
                ("since", models.DateTimeField(null=True)),
                ("took_s", models.FloatField()),
                ("is_whole", models.BooleanField()),
                ("broken", models.PositiveIntegerField()),
                ("breaks", models.JSONField(default=list)),
                ("looked_at", models.JSONField(default=dict)),
            ],
            options={"ordering": ["-id"]},
        ),
        migrations.AlterField(
            model_name="notification",
            name="kind",
            field=models.CharField(choices=KINDS, max_length=20),
        ),
        migrations.AlterField(
            model_name="notificationchoice",
            name="kind",
            field=models.CharField(choices=KINDS, max_length=20),
        ),
    ]
