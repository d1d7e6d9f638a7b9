"""When the instance of a node that was given a rank was heard last, where another speaks now."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0090_invariants")]

    operations = [
        migrations.AddField(
            model_name="placement",
            name="left_since",
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
