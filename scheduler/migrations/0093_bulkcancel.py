import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0017_auditevent_user_agent'),
        ('scheduler', '0092_meantsecrets'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='BulkCancel',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('about', models.CharField(max_length=80)),
                ('named', models.PositiveIntegerField()),
                ('reason', models.CharField(max_length=1000)),
                ('proposed_at', models.DateTimeField()),
                ('lapses_at', models.DateTimeField()),
                ('outcome', models.CharField(default='waiting', max_length=16)),
                ('decided_at', models.DateTimeField(null=True)),
                ('said', models.CharField(blank=True, max_length=1000)),
                ('ended', models.PositiveIntegerField(null=True)),
                ('decided_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('job_set', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='bulk_cancels', to='scheduler.jobset')),
                ('jobs', models.ManyToManyField(related_name='bulk_cancels', to='scheduler.job')),
                ('person', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('proposed_by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.team')),
            ],
            options={
                'ordering': ['-id'],
                'constraints': [
                    models.UniqueConstraint(condition=models.Q(('outcome', 'waiting')), fields=('about',), name='bulk_cancel_waits_once'),
                    models.CheckConstraint(condition=models.Q(('outcome__in', ['waiting', 'agreed', 'refused', 'withdrawn', 'lapsed'])), name='bulk_cancel_outcome_known'),
                    models.CheckConstraint(condition=models.Q(('proposed_by', models.F('decided_by')), _negated=True) | models.Q(('outcome', 'agreed'), _negated=True), name='bulk_cancel_by_two'),
                ],
            },
        ),
    ]
