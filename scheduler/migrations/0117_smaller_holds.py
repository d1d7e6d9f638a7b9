from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0116_hours_of_readings")]

    operations = [
        migrations.AddField(
            model_name=name,
            name="whole_money",
            field=models.PositiveBigIntegerField(blank=True, null=True),
        )
        for name in ("budgetpledge", "budgethold")
    ]
