from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduler', '0103_finish_by'),
    ]

    operations = [
        migrations.AddField(
            model_name='job',
            name='retry_rules',
            field=models.JSONField(blank=True, null=True),
        ),
    ]
