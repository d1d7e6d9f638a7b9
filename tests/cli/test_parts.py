"""Where the command shows all of a list it reads all of its parts."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

PARTS = {"": (["a", "b"], "two"), "two": (["c"], None)}


class Server(BaseHTTPRequestHandler):
    """Teams in two parts; roles as a server answers them that knows no parts."""

    def do_GET(self) -> None:
        asked = parse_qs(urlsplit(self.path).query)
        names, following = PARTS[asked.get("cursor", [""])[0]]
        page = {"items": [{"slug": one, "name": one, "parent": None} for one in names]}
        if "teams" in self.path:
            page["next_cursor"] = following  # type: ignore[assignment]
        self.send_response(400 if "limit" in asked else 200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(page).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_all_parts_are_read_and_an_older_server_is_asked_for_none(shell, address):
    shell.variables |= {"TRAINYARD_SERVER": address, "TRAINYARD_TOKEN": "ty_x"}
    assert [one["slug"] for one in shell.json("teams")] == ["a", "b", "c"]
    assert [one["slug"] for one in shell.json("roles")] == ["a", "b"]
