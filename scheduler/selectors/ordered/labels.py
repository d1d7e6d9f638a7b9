"""Labels of a spec in a query."""

from __future__ import annotations

import json
from typing import Any

from django.db.models import Func, TextField, Value
from django.db.models.sql.compiler import SQLCompiler


class LabelText(Func):
    """The text that stands under these names, each within the one before; NULL for none.

    Of a JSON column and names as Value. Django's own keys take a name of digits alone for a place
    in a list on SQLite.
    """

    function = "jsonb_extract_path_text"
    output_field = TextField()

    def as_sqlite(self, compiler: SQLCompiler, connection: Any, **more: Any) -> Any:
        column, *names = self.get_source_expressions()
        path = "$" + "".join(f".{json.dumps(name.value)}" for name in names)
        quoted = self.copy()
        quoted.set_source_expressions([column, Value(path)])
        return quoted.as_sql(compiler, connection, function="JSON_EXTRACT", **more)
