from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduler', '0096_own_trouble'),
    ]

    operations = [
        migrations.AddField(
            model_name='scenario',
            name='claimed_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='whatif',
            name='claimed_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
