from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0119_groups")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="pool_choice",
            field=models.JSONField(blank=True, null=True),
        ),
    ]
