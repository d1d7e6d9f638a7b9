from django.db import migrations

# A model and a kind as a number, so that no extension of PostgreSQL is needed.
FORWARDS = """
ALTER TABLE accounts_rate ADD CONSTRAINT rate_without_overlap EXCLUDE USING gist (
  int8range(coalesce(card_id, 0), coalesce(card_id, 0), '[]') WITH &&,
  int8range(hashtextextended(device_model || chr(31) || kind, 0) / 2,
            hashtextextended(device_model || chr(31) || kind, 0) / 2, '[]') WITH &&,
  int4range(priority, priority, '[]') WITH &&,
  tstzrange(valid_from, valid_until) WITH &&
) WHERE (decision = 'approved' AND NOT is_restatement);
"""
BACKWARDS = "ALTER TABLE accounts_rate DROP CONSTRAINT rate_without_overlap;"


def hold(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(FORWARDS, params=None)


def let_go(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(BACKWARDS, params=None)


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0011_rates_have_a_card_and_an_end'),
    ]

    operations = [
        migrations.RunPython(hold, let_go),
    ]
