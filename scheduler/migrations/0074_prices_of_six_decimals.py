from django.db import migrations, models


class AlterSize(migrations.AlterField):
    """SQLite's decimals have no size: there is nothing to do there, where Django would copy the
    table, and drop whatever triggers it has."""

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        if schema_editor.connection.vendor != "sqlite":
            super().database_forwards(app_label, schema_editor, from_state, to_state)


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0073_money_in_finer_steps")]

    operations = [
        AlterSize(
            model_name="usageentry",
            name="unit_price",
            field=models.DecimalField(decimal_places=6, max_digits=18),
        ),
    ]
