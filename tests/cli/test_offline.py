"""What the command line does without a server: usage, configuration, harmless output."""

from __future__ import annotations

import pytest

from portal.cli.config import Config, clean_server, load_config, save_config
from portal.cli.exits import Failure, code_of_end, code_of_status
from portal.cli.output import clean, harmless, span

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--help"], 0),
        (["submit", "--help"], 0),
        (["nonsense"], 2),
        (["cancel", "x"], 2),
        (["cancel", "-5"], 2),
        (["pause", "x"], 2),
        (["resume", "1"], 4),
        (["logs", "1", "--rank", "-1"], 2),
        (["submit"], 2),
        (["submit", "/no/such/file.yaml"], 4),
        (["jobs"], 4),
        (["whoami", "--json"], 4),
        (["login", "ftp://x", "--token-file", "/dev/null"], 2),
        (["login"], 2),
    ],
)
def test_exit_codes_without_a_login(shell, words, code):
    shell.run(*words, code=code)


def test_nobody_home_is_69_and_says_what_to_do(shell):
    shell.variables = {"TRAINYARD_SERVER": "http://127.0.0.1:9", "TRAINYARD_TOKEN": "ty_x_y"}
    out, err = shell.run("jobs", code=69)
    assert out == ""
    assert "127.0.0.1:9 does not answer" in err
    assert "trainyard login" in err


def test_failures_are_json_when_asked(shell):
    _, err = shell.run("jobs", "--json", code=4)
    assert '"exit_code": 4' in err


def test_the_login_is_kept_for_its_owner_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("TRAINYARD_SERVER", raising=False)
    monkeypatch.delenv("TRAINYARD_TOKEN", raising=False)
    path = save_config(Config("https://a.example", "ty_1_2"))
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert load_config() == Config("https://a.example", "ty_1_2")
    monkeypatch.setenv("TRAINYARD_TOKEN", "ty_3_4")
    assert load_config().token == "ty_3_4"
    path.write_text("{broken")
    with pytest.raises(Failure, match="cannot be read"):
        load_config()


@pytest.mark.parametrize(
    "text", ["", "ftp://x", "https://", "https://u:p@x", "https://x:99999", "https://[::1", "a b"]
)
def test_odd_addresses_are_refused(text):
    with pytest.raises(Failure):
        assert not clean_server(text)


def test_an_address_needs_no_scheme():
    assert clean_server("yard.example/ ") == "https://yard.example"


@pytest.mark.parametrize(
    ("state", "failure", "code"),
    [
        ("succeeded", "none", 0),
        ("failed", "user_code", 1),
        ("failed", "user_resource", 1),
        ("failed", "timeout", 124),
        ("failed", "infra_node", 75),
        ("failed", "platform", 75),
        ("cancelled", "none", 130),
    ],
)
def test_exit_codes_mirror_how_a_job_ended(state, failure, code):
    assert code_of_end({"state": state, "end": {"failure": failure}}) == code


def test_exit_codes_of_refusals():
    codes = {status: code_of_status(status) for status in (400, 401, 403, 404, 409, 412, 422)}
    assert codes == {400: 2, 401: 4, 403: 4, 404: 3, 409: 5, 412: 5, 422: 2}
    assert (code_of_status(503), code_of_status(500)) == (75, 69)


@pytest.mark.parametrize(
    "text",
    [
        "a\x1b]0;title\x07b",
        "a\x1b]8;;javascript:alert(1)\x1b\\b\x1b]8;;\x1b\\",
        "a\x1b[2J\x1b[1;1Hb",
        "a\x1b]52;c;ZXZpbA==\x07b",
        "a\x1bP1;2|x\x1b\\b",
        "a\x1bcb",
        "a\x07\x08\x00\x9bb",
        "a\x1b",
        "\x1b[3",
    ],
)
def test_a_log_moves_no_cursor_and_sets_no_title(text):
    shown = harmless(text)
    assert "\x1b" not in shown
    assert not set(shown) & set("\x07\x08\x00\x9b")


def test_colours_stay():
    assert harmless("\x1b[1;31mred\x1b[0m\n\tx\r") == "\x1b[1;31mred\x1b[0m\n\tx\r"


def test_names_cannot_turn_the_line_around():
    assert clean("a\u202egnp.exe\x1b[2J\nb") == "agnp.exe[2J b"


def test_spans():
    assert [span(s) for s in (5, 65, 3700, 90000)] == ["5 s", "1 min 5 s", "1 h 1 min", "25 h"]
