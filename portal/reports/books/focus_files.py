"""A closed month for FinOps tools: FOCUS rows, their side files and a manifest, as one archive.

The archive is for programs, so its texts are not guarded against spreadsheets. The same month in
the same version gives the same bytes.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import tempfile
import zipfile
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from accounts.models import User
from portal.reports.books.files import generator_version
from portal.templatetags.measures import shortest
from scheduler.ledger.exact import EXACT, ZERO
from scheduler.ledger.focus.columns import Form, columns_of
from scheduler.selectors.books.focus import billing_period, close_version, focus_rows

_BLOCK = 64 * 1024
_PLACES = 15
# Archives carry a time for each file; one that never changes keeps them comparable.
_TIME = (2000, 1, 1, 0, 0, 0)


def focus_archive(viewer: User, period: str, version: str) -> Iterator[bytes]:
    """The archive in blocks; what is refused is refused before the first one.

    Raises Forbidden, NotFound, Conflict before the close, ValueError for a version.
    """
    rows = focus_rows(viewer, period, version=version)
    side = billing_period(viewer, period)
    close = close_version(viewer, period)
    return _blocks(rows, side, close, period, version)


def _blocks(
    rows: Iterator[list[str]], side: dict[str, str], close: int, period: str, version: str
) -> Iterator[bytes]:
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
            found = _write_rows(archive, rows)
            _add(archive, "billing_period.csv", _csv([list(side), list(side.values())]))
            _add(archive, "schema.json", _json(schema_of(version, side)))
            manifest = {
                "period": period,
                "period_version": close,
                "focus_version": version,
                **found,
                "generator": f"trainyard {generator_version()}",
            }
            _add(archive, "manifest.json", _json(manifest))
        file.seek(0)
        while block := file.read(_BLOCK):
            yield block


def _write_rows(archive: zipfile.ZipFile, rows: Iterator[list[str]]) -> dict[str, Any]:
    """`focus.csv`, row by row; returns its count, sums by statement and hash."""
    digest, count, billed = hashlib.sha256(), 0, ZERO
    by_invoice: dict[str, Decimal] = {}
    names = next(rows)
    cost, invoice = names.index("BilledCost"), names.index("InvoiceId")
    info = zipfile.ZipInfo("focus.csv", _TIME)
    info.compress_type = zipfile.ZIP_DEFLATED
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(names)
    with archive.open(info, "w", force_zip64=True) as file:

        def flush() -> None:
            raw = text.getvalue().encode()
            digest.update(raw)
            file.write(raw)
            text.seek(0)
            text.truncate()

        for row in rows:
            writer.writerow(row)
            count += 1
            amount = Decimal(row[cost])
            billed = EXACT.add(billed, amount)
            by_invoice[row[invoice]] = EXACT.add(by_invoice.get(row[invoice], ZERO), amount)
            if text.tell() >= _BLOCK:
                flush()
        flush()
    return {
        "rows": count,
        "billed_cost": shortest(billed),
        "billed_cost_by_invoice": {name: shortest(by_invoice[name]) for name in sorted(by_invoice)},
        "sha256": digest.hexdigest(),
    }


def schema_of(version: str, side: dict[str, str]) -> dict[str, Any]:
    """Names and types of the columns; raises ValueError for a version."""
    types = {Form.DECIMAL: "DECIMAL", Form.INTEGER: "INTEGER", Form.MOMENT: "DATETIME"}
    columns = []
    for column in columns_of(version):
        found: dict[str, Any] = {
            "ColumnName": column.name,
            "DataType": types.get(column.form, "JSON" if column.form is Form.JSON else "STRING"),
            "AllowsNulls": column.may_be_null,
        }
        if column.form is Form.DECIMAL:
            found |= {"NumberScale": _PLACES, "NumericPrecision": 38}
        columns.append(found)
    return {
        "SchemaId": f"trainyard-{generator_version()}-focus-{version}",
        "CreationDate": side["BillingPeriodLastUpdated"],
        "FocusVersion": version,
        "DataGeneratorVersion": generator_version(),
        "ColumnDefinition": columns,
    }


def _csv(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _add(archive: zipfile.ZipFile, name: str, text: str) -> None:
    info = zipfile.ZipInfo(name, _TIME)
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, text)
