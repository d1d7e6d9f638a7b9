from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduler', '0097_claimed_simulations'),
    ]

    operations = [
        migrations.AddField(
            model_name='device',
            name='answered',
            field=models.JSONField(blank=True, null=True),
        ),
    ]
