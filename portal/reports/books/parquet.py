"""Reports as Parquet: decimals as decimal128(38, 15), seconds as int64, moments in UTC."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from scheduler.selectors.books.frame import Column, Form, Row

_BATCH = 10_000
_DECIMAL = pa.decimal128(38, 15)
_TYPES: dict[Form, Any] = {
    Form.TEXT: pa.string(),
    Form.COUNT: pa.int64(),
    Form.SECONDS: pa.int64(),
    Form.HOURS: _DECIMAL,
    Form.AMOUNT: _DECIMAL,
    Form.PRICE: _DECIMAL,
    Form.PERCENT: _DECIMAL,
    Form.DAY: pa.date32(),
    Form.MOMENT: pa.timestamp("us", tz="UTC"),
}


def write_parquet(columns: Sequence[Column], rows: Iterable[Row], file: IO[bytes]) -> None:
    """Batches of rows, a row group each; memory does not grow with them."""
    schema = pa.schema([(column.name, _TYPES[column.form]) for column in columns])
    source = iter(rows)
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        while batch := list(islice(source, _BATCH)):
            cells = zip(*(row.cells for row in batch), strict=True)
            arrays = [
                pa.array(values, type=field.type)
                for values, field in zip(cells, schema, strict=True)
            ]
            writer.write_batch(pa.record_batch(arrays, schema=schema))
