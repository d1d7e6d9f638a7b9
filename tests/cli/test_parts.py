"""Where the command shows all of a list it reads all of its parts."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

MANY = 300
PARTS = {"": (["a", "b"], "two"), "two": (["c"], None)}


def part_of_many(asked: dict[str, list[str]]) -> dict[str, object]:
    """Of three hundred rows."""
    first, limit = int(asked.get("cursor", ["0"])[0]), int(asked["limit"][0])
    rows = [{"id": number} for number in range(first, min(first + limit, MANY))]
    return {"items": rows, "next_cursor": str(first + limit) if first + limit < MANY else None}


class Server(BaseHTTPRequestHandler):
    """Teams in two parts; roles as a server answers them that knows no parts."""

    def do_GET(self) -> None:
        asked = parse_qs(urlsplit(self.path).query)
        if "/jobs/" in self.path or "/sets/" in self.path:
            return self.answer(200, part_of_many(asked))
        names, following = PARTS[asked.get("cursor", [""])[0]]
        page = {"items": [{"slug": one, "name": one, "parent": None} for one in names]}
        if "teams" in self.path:
            page["next_cursor"] = following  # type: ignore[assignment]
        return self.answer(400 if "limit" in asked else 200, page)

    def answer(self, status: int, page: object) -> None:
        self.send_response(status)
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


@pytest.mark.parametrize("words", [("teams",), ("teams", "--json"), ("--help",), ("nonsense",)])
def test_it_ends_quietly_when_nobody_reads_it(shell, address, words):
    shell.variables |= {"TRAINYARD_SERVER": address, "TRAINYARD_TOKEN": "ty_x"}
    process = shell.start(*words)
    (process.stderr if words == ("nonsense",) else process.stdout).close()
    assert process.wait(60) == 141
    rest = process.stdout if words == ("nonsense",) else process.stderr
    assert rest.read() == ""


@pytest.mark.parametrize("name", ["jobs", "sets"])
def test_a_list_that_ends_at_its_limit_says_so_and_never_in_its_output(shell, address, name):
    shell.variables |= {"TRAINYARD_SERVER": address, "TRAINYARD_TOKEN": "ty_x"}
    out, err = shell.run(name, "--json", "--limit", "250")
    assert [one["id"] for one in json.loads(out)] == list(range(250))
    assert err.strip() == "There are more than these 250: --limit shows more of them."
    out, err = shell.run(name, "--json", "--limit", str(MANY))
    assert (len(json.loads(out)), err) == (MANY, "")
