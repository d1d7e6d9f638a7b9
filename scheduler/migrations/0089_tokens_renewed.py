"""A node's token is replaced: the next one, offered, and the one before, which is about to end."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0088_left_behind")]

    operations = [
        migrations.AddField("node", "token_since", models.DateTimeField(blank=True, null=True)),
        migrations.AddField(
            "node",
            "next_token_hash",
            models.CharField(blank=True, max_length=64, null=True, unique=True),
        ),
        migrations.AddField("node", "next_token", models.BinaryField(blank=True, null=True)),
        migrations.AddField(
            "node",
            "old_token_hash",
            models.CharField(blank=True, max_length=64, null=True, unique=True),
        ),
        migrations.AddField("node", "old_token_until", models.DateTimeField(blank=True, null=True)),
    ]
