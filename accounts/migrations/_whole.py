"""What lets a new database be made in one go instead of step by step."""

from importlib import import_module
from pkgutil import iter_modules

from django.db.migrations import Migration
from django.db.migrations.operations.base import Operation


def steps(package: str, until: str) -> list[type[Migration]]:
    """The migrations of a package in their order, up to and with the one of this name."""
    folder = import_module(package).__path__
    names = sorted(module.name for module in iter_modules(folder) if module.name <= until)
    named = (name for name in names if name[:4].isdigit() and "_squashed_" not in name)
    return [import_module(f"{package}.{name}").Migration for name in named]


class Whole(Operation):
    """Makes each table once, as the last of some steps leaves it.

    Equals the steps one after the other on an empty database, without what they do by code:
    whatever of that an empty database needs (triggers) is an operation of its own after this one.
    The steps' 250 operations each have Django render the models anew (and SQLite copy tables);
    here the models are rendered once, for the last state.
    """

    reversible = False

    def __init__(self, operations: list[Operation]) -> None:
        self.operations = operations

    def state_forwards(self, app_label: str, state) -> None:
        """Go through the steps without models, which the last state alone needs."""
        if "apps" in state.__dict__:
            del state.apps
        for operation in self.operations:
            operation.state_forwards(app_label, state)

    def database_forwards(self, app_label: str, schema_editor, from_state, to_state) -> None:
        """Make the tables of all models that the last state has."""
        for model in to_state.apps.get_app_config(app_label).get_models():
            if self.allow_migrate_model(schema_editor.connection.alias, model):
                schema_editor.create_model(model)

    def describe(self) -> str:
        """For `migrate --plan`."""
        return f"Make every table of {len(self.operations)} steps at once"
