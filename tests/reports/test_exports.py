"""CSV that is safe to open, charts that say what they show."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import typer

from portal.cli.__main__ import app
from portal.cli.submit import fields_of
from portal.forms.job_text import read_pairs, write_pairs
from portal.reports.books.files import Style, csv_blocks
from portal.reports.books.workbooks import write_workbook
from portal.reports.charts import MAX_TRACES, cost_chart, device_charts, device_points, mean_use
from portal.reports.exports import csv_lines, guarded
from portal.reports.spec_text import command_line_of, yaml_of
from scheduler.selectors.books.frame import Column, Form, Row
from scheduler.selectors.telemetry import DeviceSeries
from scheduler.spec import parse_spec
from scheduler.spec.document import read_document
from scheduler.spec.partial import read_partial
from tests.reports.workbook import cells_of, sheet_xml

pytestmark = pytest.mark.once

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "cell", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", '=HYPERLINK("http://x")']
)
def test_text_that_looks_like_a_formula_is_quoted(cell):
    assert guarded(cell) == "'" + cell


def test_numbers_stay_numbers():
    assert guarded(Decimal("-1E-7")) == "-0.0000001"
    assert guarded(-5) == "-5"
    assert guarded("vision/digits") == "vision/digits"


def test_quotes_commas_and_line_ends_survive():
    rows = [['a "b", c', "x\ny", "ü"]]
    text = "".join(csv_lines(["one", "two", "three"], rows))
    assert text.startswith("\ufeffone,two,three\r\n")
    assert list(csv.reader(io.StringIO(text.lstrip("\ufeff"))))[1:] == rows


def test_b82_negative_amounts_stay_numbers_and_texts_like_them_do_not():
    columns = (Column("amount", "Amount", Form.AMOUNT), Column("name", "Name"))
    rows = [Row(1, (Decimal("-1234.56"), "-1234.56")), Row(2, (Decimal("-1E-7"), "−2"))]
    text = b"".join(csv_blocks(columns, rows, Style(has_bom=False))).decode()
    assert text.splitlines()[1:] == ["-1234.56,'-1234.56", "-0.0000001,−2"]
    file = io.BytesIO()
    write_workbook(columns, rows, file)
    xml = sheet_xml(file.getvalue())
    numbers = re.findall(r'<c r="A\d"(?: s="\d+")?><v>([^<]*)</v>', xml)
    assert numbers == ["-1234.56", "-0.0000001"]
    (first, second) = cells_of(file.getvalue())
    assert (first["amount_exact"], second["amount_exact"]) == ("-1234.56", "-0.0000001")
    assert re.search(r'<c r="C2" t="inlineStr"><is><t>-1234.56</t>', xml)


def series(index: int, count: int = 5, gap_at: int = 0) -> DeviceSeries:
    one = DeviceSeries(f"GPU-{index}", index, "n1", 0, "H100", 81920, True)
    for number in range(count):
        late = timedelta(minutes=10) if gap_at and number >= gap_at else timedelta()
        one.at.append(NOON + timedelta(seconds=2 * number) + late)
        one.gpu_percent.append(10.0 * number)
        one.memory_used_mib.append(1024 * number)
        one.power_watts.append(100)
        one.temperature_c.append(50)
    return one


def test_a_chart_has_its_points_its_words_and_its_table():
    use, memory, *_ = device_charts([series(0)])
    assert use.figure["data"][0]["y"] == [0.0, 10.0, 20.0, 30.0, 40.0]
    assert memory.figure["data"][0]["y"][-1] == 4.0
    assert use.summary == "GPU use of 1 GPU: between 0 and 40 %, on average 20 %."
    assert (use.rows[0].low, use.rows[0].last, use.rows[0].is_simulated) == (0.0, 40.0, True)
    json.dumps(use.figure)


def test_silence_is_a_gap_not_a_line():
    chart = device_charts([series(0, count=6, gap_at=3)])[0]
    assert chart.figure["data"][0]["y"][3] is None


def test_many_devices_are_all_in_the_table():
    chart = device_charts([series(n) for n in range(20)])[0]
    assert len(chart.figure["data"]) == MAX_TRACES
    assert len(chart.rows) == 20
    assert "8 of 20 drawn" in chart.summary


def test_no_readings_say_so():
    assert device_charts([])[0].summary == "GPU use: no readings yet."
    assert device_points([])["gpu_percent"] == {}


def test_what_is_not_told_is_unknown_and_no_nought():
    one, blind = series(0), series(1)
    told = one.gpu_percent[-1]
    one.gpu_percent[0] = None
    blind.gpu_percent = [None] * len(blind.at)
    use, memory, *_ = device_charts([one, blind])
    assert use.figure["data"][0]["y"][0] is None and use.figure["data"][1]["y"][-1] is None
    (row,) = use.rows
    assert row.readings == len(one.at) - 1 and len(memory.rows) == 2
    assert mean_use([one, blind]) == pytest.approx(told, abs=50) and mean_use([blind]) is None
    assert device_charts([blind])[0].summary == "GPU use: unknown."


def test_cost_chart_names_cannot_turn_their_direction():
    figure = cost_chart([("a\u202eb", 2.0), ("c", 1.0)], "EUR")
    assert figure["data"][0]["y"] == ["c", "ab"]


SPECS = [
    {"command": "python train.py --lr 1e-3 'a b'", "nodes": 2, "gpus_per_node": 8},
    {"script": "#!/bin/sh\necho hi\n\n  indented: yes\n", "env": {"A": "no", "B": "x\ny"}},
    {"command": "true", "labels": {"exp": "1"}, "time_limit": "1d12h", "stop": {"grace": 90}},
]


@pytest.mark.parametrize("fields", SPECS, ids=range(len(SPECS)))
def test_the_yaml_shown_is_the_job_asked_for(fields):
    spec = parse_spec({"name": "n: #1", "project": "vision/digits", **fields})
    assert parse_spec(read_document(yaml_of(spec))) == spec
    assert command_line_of(spec).startswith("trainyard submit")


@pytest.mark.parametrize(
    "pairs", [{"A": "1", "B": ""}, {"A": "x\ny", "B": " padded "}, {"A": '"q"', "B": "a=b=c"}]
)
def test_pairs_round_trip(pairs):
    assert read_pairs(write_pairs(pairs)) == pairs


@pytest.mark.parametrize("text", ["A", "=1", "A=1\nA=2", 'A="open'])
def test_wrong_pairs_name_their_line(text):
    with pytest.raises(ValueError, match=r"^Line \d"):
        read_pairs(text)


def test_the_command_line_says_what_differs_from_the_defaults():
    fields = {"command": ["python", "a b.py"], "tier": "urgent", "env": {"LR": "1 e"}, "hold": True}
    spec = parse_spec({"name": "n 1", "project": "vision/digits", "memory": "16GiB", **fields})
    assert command_line_of(spec).replace(" \\\n ", "") == (
        "trainyard submit --project vision/digits --name 'n 1' --nodes 1 --gpus 1 --time 1h "
        "--tier urgent --memory 16GiB --env 'LR=1 e' --hold -- python 'a b.py'"
    )


# What a template says, each with another value than a job has by itself.
_HELD = {
    "tier": "urgent", "preemptible": False, "pool": "big", "booking": "exam", "min_runtime": "10m",
    "other_pools": ["b", "c"], "begin": "2099-01-01T00:00Z", "array": "0-9%2",
    "nodes": "2..8", "node_sizes": [2, 8],
    "gpus_per_node": 8, "gpu_memory": "40GB", "gpu_models": ["A", "B"], "fallback_after": "1h",
    "share_cards": True, "exclusive": True, "cpus": 8, "memory": "64GiB", "scratch": "1GiB",
    "licences": {"solver": 2}, "constraints": ["network=ib"], "exclude_nodes": ["n1"],
    "topology": "rack:preferred", "datasets": ["imagenet"], "time_limit": "2h",
    "processes": "gpu", "env": {"A": "1"}, "secrets": ["hub-token"], "working_dir": "/w",
    "retries": 3, "retry_rules": ["exit=75,77:3:wait=1m..1h", "failure=hang:stop:log=a 'b: c"],
    "notify": ["fail", "warn"],
    "checkpoint_dir": "/c", "stop": {"grace": "90s"}, "disconnect_grace": "1h",
    "hold": True, "labels": {"a": "b"}, "description": "two\nlines", "depends_on": ["singleton"],
    "code": {"folder": "/x"}, "script": "true\n", "session": {"app": "shell"},
}  # fmt: skip
_ALONE = {"name": "n", "project": "v/d", "command": ["python", "a b.py"]}


def of_the_line(line: str) -> dict[str, Any]:
    """The document that `trainyard` sends for a line; for one with a file nothing."""
    words = shlex.split(line.replace("\\\n", " "))
    if words[-1] == "job.yaml":
        return {}
    assert words[:2] == ["trainyard", "submit"]
    at = words.index("--")
    commands: Any = typer.main.get_command(app)
    given = commands.commands["submit"].make_context("submit", words[2:at])
    fields = fields_of(given.params)
    kept = {name: value for name, value in fields.items() if value not in (None, "", {}, [])}
    return {**kept, "command": words[at + 1 :]}


@pytest.mark.parametrize("field", _HELD)
def test_what_a_template_says_otherwise_is_written(field):
    several, models = {"nodes": "2..8"}, {"gpu_models": ["A", "B"]}
    beside = {
        "node_sizes": several, "topology": several, "fallback_after": models,
        "code": {"command": ["make"]},
    }  # fmt: skip
    template = {**beside.get(field, {}), field: _HELD[field]}
    template = read_partial(template).document
    assert field in template
    spec = parse_spec(_ALONE)
    assert {**spec.document(), **template} != spec.document()
    shown = read_document(yaml_of(spec, template))
    assert parse_spec({**template, **shown}) == spec == parse_spec(shown)
    line = command_line_of(spec, "v-t@1", template)
    assert line.startswith("trainyard submit --template v-t@1")
    assert parse_spec({**template, **(of_the_line(line) or shown)}) == spec
    if field in ("tier", "retries", "cpus", "memory", "exclusive", "nodes", "processes"):
        assert of_the_line(line)


def test_the_command_line_says_each_retry_rule():
    spec = parse_spec({**_ALONE, "retry_rules": _HELD["retry_rules"]})
    line = command_line_of(spec)
    assert "--retry-on exit=75,77:3:wait=1m..1h" in line and line.count("--retry-on") == 2
    assert parse_spec(of_the_line(line)) == spec


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"depends_on": "afterok:12, afterany:13:14"}, "--depends-on afterany:13"),
        ({"depends_on": [{"job": "prep: a"}]}, "submit job.yaml"),
        ({"depends_on": "singleton"}, "--depends-on singleton"),
        ({"topology": "rack:balanced", "nodes": 2}, "--topology rack:balanced"),
    ],
)
def test_the_command_line_asks_for_the_same(fields, words):
    spec = parse_spec({**_ALONE, **fields})
    line = command_line_of(spec)
    assert words in line
    assert parse_spec(of_the_line(line) or read_document(yaml_of(spec))) == spec


def test_an_option_takes_several_dependencies_with_commas():
    line = "trainyard submit --project v/d --name n --depends-on 12,afterany:13 -d singleton -- a"
    found = parse_spec(of_the_line(line)).document()["depends_on"]
    assert found == ["afterok:12", "afterany:13", "singleton"]


def test_the_command_line_leaves_out_a_closeness_to_nothing():
    spec = parse_spec({**_ALONE, "topology": {"mode": "preferred"}})
    assert command_line_of(spec) == command_line_of(parse_spec(_ALONE))


SESSIONS = [
    ({"session": "shell"}, "session start shell --project v/d --name lab --gpus 1"),
    (
        {"session": {"app": "command"}, "command": ["serve", "a b"], "pool": "big"},
        "session start command --project v/d --name lab --pool big --gpus 1",
    ),
    # What `session start` has no option for goes by the file.
    ({"session": "shell", "tier": "urgent"}, "submit job.yaml"),
]


@pytest.mark.parametrize(("fields", "words"), SESSIONS, ids=range(len(SESSIONS)))
def test_the_command_line_of_a_session_starts_the_same(fields, words):
    spec = parse_spec({"name": "lab", "project": "v/d", **fields})
    assert parse_spec(read_document(yaml_of(spec))) == spec
    line = command_line_of(spec).replace(" \\\n ", "")
    assert line.startswith(f"trainyard {words}")
    if spec.command:
        assert line.endswith("--idle-stop 30m -- serve 'a b'")
    assert command_line_of(spec, "lab@1") == "trainyard submit --template lab@1 job.yaml"
