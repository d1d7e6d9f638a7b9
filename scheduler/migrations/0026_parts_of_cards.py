"""Parts of cards as devices, and triggers that hold what a card allows.

Both databases refuse an allocation of what is not in service, of a card that is in parts, and of a
part whose card a team holds that did not opt in to others; and parts that are more than their card.
SQLite loses triggers when Django rebuilds their table: a later migration that rebuilds one of these
two has to call `let_go` before and `hold` after (tests/services/test_parts.py notices).
"""

from django.db import migrations, models

# What must not be there when a new allocation is written; NEW is the allocation.
OUT = """
  SELECT 1 FROM scheduler_device d
  WHERE d.id = NEW.device_id AND NOT d.in_service
"""
STRANGERS = """
  SELECT 1 FROM scheduler_device mine
  JOIN scheduler_placement new_place ON new_place.id = NEW.placement_id
  JOIN scheduler_attempt new_try ON new_try.id = new_place.attempt_id
  JOIN scheduler_job new_job ON new_job.id = new_try.job_id
  JOIN accounts_project new_project ON new_project.id = new_job.project_id
  JOIN scheduler_device other ON other.parent_id = mine.parent_id AND other.id <> mine.id
  JOIN scheduler_allocation held ON held.device_id = other.id AND held.released_at IS NULL
  JOIN scheduler_placement place ON place.id = held.placement_id
  JOIN scheduler_attempt try ON try.id = place.attempt_id
  JOIN scheduler_job job ON job.id = try.job_id
  JOIN accounts_project project ON project.id = job.project_id
  WHERE mine.id = NEW.device_id AND project.team_id <> new_project.team_id
    AND NOT (job.share_cards AND new_job.share_cards)
"""
# And when a part is written; NEW is the device.
TOO_MUCH = """
  SELECT 1 WHERE NEW.milli + (
    SELECT COALESCE(SUM(part.milli), 0) FROM scheduler_device part
    WHERE part.parent_id = NEW.parent_id AND part.in_service AND part.id <> NEW.id
  ) > 1000
"""
POSTGRES = f"""
CREATE FUNCTION trainyard_allocation_allowed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS ({OUT}) THEN
    RAISE EXCEPTION 'the device is not in service' USING ERRCODE = 'check_violation';
  END IF;
  IF EXISTS ({STRANGERS}) THEN
    RAISE EXCEPTION 'tenants share no card unless all opted in' USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER allocation_allowed BEFORE INSERT ON scheduler_allocation
  FOR EACH ROW EXECUTE FUNCTION trainyard_allocation_allowed();
CREATE FUNCTION trainyard_parts_of_a_card() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS ({TOO_MUCH}) THEN
    RAISE EXCEPTION 'the parts are more than their card' USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER parts_of_a_card BEFORE INSERT OR UPDATE OF milli, parent_id, in_service
  ON scheduler_device FOR EACH ROW
  WHEN (NEW.parent_id IS NOT NULL AND NEW.in_service)
  EXECUTE FUNCTION trainyard_parts_of_a_card();
"""
SQLITE = (
    f"""
CREATE TRIGGER allocation_allowed BEFORE INSERT ON scheduler_allocation
BEGIN
  SELECT RAISE(ABORT, 'the device is not in service') WHERE EXISTS ({OUT});
  SELECT RAISE(ABORT, 'tenants share no card unless all opted in') WHERE EXISTS ({STRANGERS});
END
""",
    *(
        f"""
CREATE TRIGGER parts_of_a_card_{name} AFTER {when} ON scheduler_device
WHEN NEW.parent_id IS NOT NULL AND NEW.in_service
BEGIN
  SELECT RAISE(ABORT, 'the parts are more than their card') WHERE EXISTS ({TOO_MUCH});
END
"""
        for name, when in (
            ("insert", "INSERT"),
            ("update", "UPDATE OF milli, parent_id, in_service"),
        )
    ),
)


def hold(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(POSTGRES, params=None)
    elif schema_editor.connection.vendor == "sqlite":
        for trigger in SQLITE:
            schema_editor.execute(trigger, params=None)


def let_go(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(
            "DROP FUNCTION trainyard_allocation_allowed() CASCADE;"
            "DROP FUNCTION trainyard_parts_of_a_card() CASCADE;",
            params=None,
        )
    elif schema_editor.connection.vendor == "sqlite":
        for name in ("allocation_allowed", "parts_of_a_card_insert", "parts_of_a_card_update"):
            schema_editor.execute(f"DROP TRIGGER {name}")


class Migration(migrations.Migration):

    dependencies = [
        ("accounts", "0001_initial"),
        ("scheduler", "0025_retirements_need_two"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="device", options={"ordering": ["node_id", "index", "slot", "id"]}
        ),
        migrations.AddField("device", "milli", models.PositiveSmallIntegerField(default=1000)),
        migrations.AddField(
            "device", "slot", models.PositiveSmallIntegerField(blank=True, null=True)
        ),
        migrations.AddField(
            "device", "isolation", models.CharField(blank=True, default="", max_length=16),
            preserve_default=False,
        ),
        migrations.AddField("device", "in_service", models.BooleanField(default=True)),
        migrations.AddConstraint(
            "device",
            models.CheckConstraint(
                condition=models.Q(("milli__range", (1, 1000))), name="device_milli_of_a_card"
            ),
        ),
        migrations.AddConstraint(
            "device",
            models.UniqueConstraint(
                condition=models.Q(("in_service", True), ("slot__isnull", False)),
                fields=("parent", "slot"),
                name="one_device_per_slot_of_a_card",
            ),
        ),
        migrations.RunPython(hold, let_go),
    ]
