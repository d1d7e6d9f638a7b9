"""The simulator: the last hours under other rules, and traces of what ran."""

from __future__ import annotations

import csv
import io
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from portal.cli.client import Api, Patience
from portal.cli.config import load_config
from portal.cli.exits import TRY_AGAIN, Failure
from portal.cli.output import ago, print_json, print_line, print_table
from portal.cli.session import AsJson
from scheduler.states import hours_words

app = typer.Typer(
    help="List what was simulated; replay the last hours under other rules (operators).",
    invoke_without_command=True,
)
Number = Annotated[int, typer.Argument(help="The scenario's number.")]
InPool = Annotated[str, typer.Option(help="Only this pool; else all together.")]
Hours = Annotated[int, typer.Option(help="So many back from now.")]
To = Annotated[Path | None, typer.Option("--output", "-o", help="A file; else standard output.")]
_HEADS = ("SCENARIO", "POOL", "HOURS", "CHANGES", "ANSWER", "ASKED BY", "SINCE")
_ROWS = {
    "wait_p50_s": "half wait at most, s",
    "wait_p90_s": "nine of ten wait at most, s",
    "utilisation": "GPUs in use, from the first submit to the last end",
    "preemptions": "stops for others",
    "failures": "stops by lost nodes",
    "jain": "fairness (Jain's index, 1 = equal)",
    "gpu_hours": "GPU-hours held",
    "lost_gpu_hours": "of them lost",
    "cost": "cost",
}
_STEP_S, _LONGEST_S = 1.0, 120.0


@app.callback()
def list_scenarios(context: typer.Context, as_json: AsJson = False) -> None:
    """List what was simulated; replay the last hours under other rules (operators)."""
    if context.invoked_subcommand:
        return
    with Api(load_config()) as api:
        found = api.everything("/simulator/")
    if as_json:
        print_json(found)
        return
    print_table(_HEADS, [_cells(one) for one in found], "Nothing was simulated yet.")


@app.command()
def ask(
    changes: Annotated[
        list[str],
        typer.Argument(
            help="Such as nodes=12, policy=fair, preempt=yes, placement=pack, maximum:TEAM=16, "
            "lose:3@3600; of one of several pools nodes:POOL=12."
        ),
    ],
    pool: InPool = "",
    hours: Hours = 24,
    name: Annotated[str, typer.Option(help="What to call it.")] = "",
    wait: Annotated[bool, typer.Option(help="Wait for the answer.")] = True,
    as_json: AsJson = False,
) -> None:
    """Replay the last hours as they are and with these changes; nothing changes by it."""
    body = {"pool": pool, "hours": hours, "changes": changes, "name": name}
    with Api(load_config()) as api:
        found = api.post("/simulator/", body)
        until, patience = time.monotonic() + _LONGEST_S, Patience()
        while wait and found["progress"] in ("waiting", "running"):
            if time.monotonic() > until:
                raise Failure(
                    f"Scenario {found['id']} still waits; look at it later.", code=TRY_AGAIN
                )
            time.sleep(_STEP_S)
            try:
                found = api.get(f"/simulator/{found['id']}/")
                patience.renew()
            except Failure as failure:
                patience.bear(failure)
    _say(found, as_json)


@app.command()
def show(number: Number, as_json: AsJson = False) -> None:
    """One scenario and its answer."""
    with Api(load_config()) as api:
        _say(api.get(f"/simulator/{number}/"), as_json)


@app.command()
def forget(number: Number, as_json: AsJson = False) -> None:
    """Delete a scenario and its answer."""
    with Api(load_config()) as api:
        api.delete(f"/simulator/{number}/")
    if as_json:
        print_json({"id": number})
        return
    print_line(f"Scenario {number} is forgotten.")


@app.command()
def result(
    number: Number,
    of: Annotated[str, typer.Option(help="base (as it is) or changed.")] = "changed",
    output: To = None,
    as_json: AsJson = False,
) -> None:
    """What became of its jobs, as a trace (CSV) that the simulator reads again."""
    with Api(load_config()) as api:
        _write(api.get_raw(f"/simulator/{number}/trace/", of=of).text, output, as_json)


@app.command()
def trace(pool: InPool = "", hours: Hours = 24, output: To = None, as_json: AsJson = False) -> None:
    """What really ran in the last hours, as a trace (CSV): no names of people or jobs."""
    with Api(load_config()) as api:
        found = api.get_raw("/simulator/trace/", pool=pool or None, hours=hours)
        _write(found.text, output, as_json)


def _write(text: str, output: Path | None, as_json: bool) -> None:
    """The trace to a file, or to standard output: as JSON, its rows by the names of the columns."""
    rows = list(csv.DictReader(io.StringIO(text))) if as_json else []
    if output is None:
        if as_json:
            print_json(rows)
        else:
            typer.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failure(f"{output} cannot be written: {error}") from None
    if as_json:
        print_json({"file": str(output), "jobs": len(rows)})
        return
    print_line(f"{max(0, text.count(chr(10)) - 1)} jobs in {output}.")


def _cells(one: dict[str, Any]) -> list[object]:
    return [
        one["id"],
        one["pool"] or "all",
        one["hours"],
        " ".join(one["changes"]),
        one["progress"],
        one["asked_by"],
        ago(one["created_at"]),
    ]


def _shown(name: str, figure: float) -> object:
    return hours_words(3600 * figure) if name.endswith("gpu_hours") else figure


def _say(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    answer = found["answer"]
    if found["progress"] != "done":
        words = {"empty": "No job of that time has ended.", "failed": answer.get("problem", "")}
        said = words.get(found["progress"], "Look again later.")
        print_line(f"Scenario {found['id']}: {found['progress']}. {said}")
        return
    before, after = answer["measures"]
    rows = [
        [words, *(_shown(name, each[name]) for each in (before, after))]
        for name, words in _ROWS.items()
        if before[name] is not None
    ]
    for one in answer["pools"]:
        pair = one["measures"]
        rows += [
            [f"{one['name']}: {_ROWS[name]}", *(each[name] for each in pair)]
            for name in ("wait_p90_s", "utilisation")
        ]
    print_line(f"Scenario {found['id']}: {answer['jobs']} jobs, {answer['left_out']} left out.")
    print_table(("", "AS IT IS", "CHANGED"), rows, "")
    for note in answer["notes"]:
        print_line(note)
