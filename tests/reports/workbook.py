"""XLSX as its own reader sees it: the cells of the first sheet, numbers as they are written."""

from __future__ import annotations

import io
import re
import zipfile
from xml.etree import ElementTree

_NS = {"x": "http://schemas.openxmlformats.org/spreadsheetml/2006/main"}


def sheet_xml(content: bytes) -> str:
    """The first sheet's own XML."""
    with zipfile.ZipFile(io.BytesIO(content)) as book:
        return book.read("xl/worksheets/sheet1.xml").decode()


def sheet_names(content: bytes) -> list[str]:
    """As the tabs show them."""
    with zipfile.ZipFile(io.BytesIO(content)) as book:
        root = ElementTree.fromstring(book.read("xl/workbook.xml"))
    return [sheet.attrib["name"] for sheet in root.iterfind(".//x:sheet", _NS)]


def cells_of(content: bytes) -> list[dict[str, str]]:
    """Rows by heading; every cell as its text."""
    root = ElementTree.fromstring(sheet_xml(content))
    lines = []
    for row in root.iterfind(".//x:row", _NS):
        found = {}
        for cell in row.iterfind("x:c", _NS):
            column = re.match(r"[A-Z]+", cell.attrib["r"])
            text = "".join(cell.itertext())
            found[column[0] if column else ""] = text
        lines.append(found)
    heads = lines[0]
    return [{heads[place]: text for place, text in line.items()} for line in lines[1:]]
