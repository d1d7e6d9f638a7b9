"""Ask who shares a card only where a part of one is allocated.

PostgreSQL joined eleven tables for every allocation. Just after autovacuum had found them empty, its
plan went through all of them for each new row of a transaction. For a whole card the join is empty.
"""

from importlib import import_module

from django.db import migrations

BEFORE = import_module("scheduler.migrations.0026_parts_of_cards")
POSTGRES = f"""
CREATE OR REPLACE FUNCTION trainyard_allocation_allowed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  card RECORD;
BEGIN
  SELECT in_service, parent_id INTO card FROM scheduler_device WHERE id = NEW.device_id;
  IF NOT card.in_service THEN
    RAISE EXCEPTION 'the device is not in service' USING ERRCODE = 'check_violation';
  END IF;
  IF card.parent_id IS NOT NULL THEN
    IF EXISTS ({BEFORE.STRANGERS}) THEN
      RAISE EXCEPTION 'tenants share no card unless all opted in'
        USING ERRCODE = 'check_violation';
    END IF;
  END IF;
  RETURN NEW;
END $$;
"""


def ask_of_parts(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(POSTGRES, params=None)


class Migration(migrations.Migration):

    dependencies = [("scheduler", "0089_tokens_renewed")]

    # Both functions refuse the same; there is nothing to put back.
    operations = [migrations.RunPython(ask_of_parts, migrations.RunPython.noop)]
