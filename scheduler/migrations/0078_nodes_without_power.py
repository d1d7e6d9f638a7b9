from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0077_memory_at_a_close")]

    operations = [
        migrations.AddField(
            model_name="node",
            name="said_off",
            field=models.JSONField(blank=True, null=True),
        ),
    ]
