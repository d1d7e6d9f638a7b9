import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduler', '0052_caps_of_sessions'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='quotarequest',
            name='request_kind_known',
        ),
        migrations.AddField(
            model_name='quotarequest',
            name='booking',
            field=models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='request', to='scheduler.booking'),
        ),
        migrations.AddConstraint(
            model_name='quotarequest',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ['guaranteed', 'borrow', 'maximum', 'access', 'walltime', 'budget', 'money', 'reservation'])), name='request_kind_known'),
        ),
    ]
