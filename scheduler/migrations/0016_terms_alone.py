from django.db import migrations, models


class Migration(migrations.Migration):
    """Apart from 0015: PostgreSQL alters no table in whose transaction rows were just written."""

    dependencies = [("scheduler", "0015_terms")]

    operations = [
        migrations.RemoveField(
            model_name='devicesegment',
            name='tier',
        ),
        migrations.RemoveField(
            model_name='pool',
            name='idle_policy',
        ),
        migrations.RemoveField(
            model_name='pool',
            name='platform_policy',
        ),
        migrations.AddField(
            model_name="periodclose",
            name="shares",
            field=models.JSONField(default=list),
        ),
    ]
