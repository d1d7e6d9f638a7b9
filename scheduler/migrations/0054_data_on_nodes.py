from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0055_scenarios_of_all_pools")]

    operations = [
        migrations.AddField(
            model_name="node", name="data", field=models.JSONField(blank=True, null=True)
        ),
    ]
