"""Schedules: jobs that are submitted again and again, by a rule of time."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from portal.cli import options, spec, submit
from portal.cli.client import Api
from portal.cli.composing.convert import is_batch_script, read_batch
from portal.cli.config import load_config
from portal.cli.exits import Failure
from portal.cli.output import moment, print_json, print_line, print_listed, print_table, say
from portal.cli.session import AsJson

app = typer.Typer(
    help="List schedules of jobs; make, show, change, pause, resume, run, take over or delete one.",
    invoke_without_command=True,
)
Number = Annotated[int, typer.Argument(help="Its number, as listed.")]
Reason = Annotated[str, typer.Option(help="Why; needed where it is somebody else's.")]
Rule = typer.Option("--every", help='When: "30 2 * * mon-fri", or @hourly, @daily, @weekly.')
Zone = typer.Option("--zone", help="Whose clocks: Europe/Berlin; UTC unless said.")
Title = typer.Option("--title", help="What to call the schedule; as its job unless said.")
Overlap = typer.Option("--overlap", help="While an earlier one goes on: skip, queue or replace.")
MostOpen = typer.Option("--most-open", help="With queue: at most so many wait and run.")
LateWithin = typer.Option("--late-within", help="Make up for a missed time up to so many seconds.")
PauseAfter = typer.Option("--pause-after", help="Pause after so many failures in a row; 0: never.")
Starts = typer.Option("--from", help="Not due before: 2026-12-01T08:00Z, or +2h from now.")
Ends = typer.Option("--until", help="Not due after: 2026-12-31T08:00Z, or +30d from now.")
_HEADS = ("NO", "NAME", "PROJECT", "OWNER", "EVERY", "STATE", "NEXT", "LAST")
_ACTS = ("AT", "WHAT", "BY", "CHANGED", "WHY")
_RUNS = ("DUE", "CAME", "JOB", "STATE", "COST", "WHY")


@app.callback()
def list_schedules(
    context: typer.Context,
    project: Annotated[str, typer.Option("--project", "-p", help="Of this project alone.")] = "",
    everybody: Annotated[bool, typer.Option("--all", help="Not only your own.")] = False,
    as_json: AsJson = False,
) -> None:
    """List schedules of jobs; make, show, change, pause, resume, run, take over or delete one."""
    if context.invoked_subcommand:
        return
    query: dict[str, Any] = {"project": project or None, "mine": None if everybody else 1}
    with Api(load_config()) as api:
        found = api.everything("/schedules/", **{k: v for k, v in query.items() if v is not None})
    if as_json:
        print_json(found)
        return
    print_table(_HEADS, [_cells(one) for one in found], "There is no schedule.")


@app.command()
@options.taking(options.What, options.Resources, options.When)
def create(
    context: typer.Context,
    every: Annotated[str, Rule],
    file: options.AsFile = "",
    zone: Annotated[str, Zone] = "UTC",
    title: Annotated[str, Title] = "",
    overlap: Annotated[str, Overlap] = "",
    most_open: Annotated[int | None, MostOpen] = None,
    late_within: Annotated[int | None, LateWithin] = None,
    pause_after: Annotated[int | None, PauseAfter] = None,
    starts: Annotated[str, Starts] = "",
    ends: Annotated[str, Ends] = "",
    even_if_lost: Annotated[
        bool, typer.Option("--even-if-lost", help="Take an sbatch script without what is lost.")
    ] = False,
    as_json: AsJson = False,
    **given: Any,
) -> None:
    """Submit a job again and again: schedule create job.yaml --every @daily, or OPTIONS -- COMMAND.
    It comes in your name, with the rights that you have then."""
    command, template = context.obj or (), given["template"]
    if not (file or command or given["script"] or template):
        raise Failure(
            "There is nothing to run.",
            remedy="Name a file, use --script, or put the command after -- at the end.",
        )
    with Api(load_config()) as api:
        raw = spec.read_file(file) if file else b""
        held = submit.held_by(api, template) if template else ()
        if is_batch_script(raw):
            project = given["project"] or ""
            raw = read_batch(file, raw, api, project=project, even_if_lost=even_if_lost, held=held)
        content, kind = spec.content_of(file, raw, submit.fields_of(given), command, api, held)
        job = spec.read_job_file(file, content) if "yaml" in kind else json.loads(content)
        terms = _terms(every, zone, title, overlap, starts, ends)
        terms |= _figures(most_open, late_within, pause_after)
        terms.setdefault("name", str(job.get("name") or template or "job"))
        body = {**terms, "spec": job} | ({"template": template} if template else {})
        found = api.post("/schedules/", body)
    _say_kept(found, as_json)


@app.command()
def show(number: Number, as_json: AsJson = False) -> None:
    """What it submits, when next, and about what it costs a month."""
    import yaml

    with Api(load_config()) as api:
        found = api.get(f"/schedules/{number}/")
    if as_json:
        print_json(found)
        return
    print_line(f"# {found['name']}: {found['rule']} in {found['zone']}, {found['state']}")
    if found["pause_reason"]:
        print_line(f"# {found['pause_reason']}")
    times = ", ".join(moment(at) for at in found["next_times"]) or "none"
    print_line(f"# next: {times}")
    print_line(f"# about {found['a_month']} a month; while one goes on: {found['overlap']}")
    if found["month_cost"] is not None:
        print_line(f"# about {float(found['month_cost']):.2f} a month, as the last ones cost")
    if found["spec"] is not None:
        text = yaml.safe_dump(found["spec"], sort_keys=False, allow_unicode=True)
        for line in text.splitlines():
            print_line(line)


@app.command()
def runs(
    number: Number,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")] = 20,
    as_json: AsJson = False,
) -> None:
    """What came of its due times, the latest first: jobs with their cost, or why there is none."""
    with Api(load_config()) as api:
        found, is_more = api.first(f"/schedules/{number}/runs/", limit)
    print_listed(found, _RUNS, _run_cells, "It was not due yet.", as_json=as_json, is_cut=is_more)


@app.command()
def history(
    number: Number,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")] = 20,
    as_json: AsJson = False,
) -> None:
    """What was done with it and by whom, the latest first."""
    with Api(load_config()) as api:
        found, is_more = api.first(f"/schedules/{number}/history/", limit)
    words = "Nothing is known of before."
    print_listed(found, _ACTS, _act_cells, words, as_json=as_json, is_cut=is_more)


@app.command("take-over")
def take_over(
    number: Number,
    reason: Annotated[str, typer.Option(help="Why; its history says it.")] = "",
    as_json: AsJson = False,
) -> None:
    """Become its owner where that one has left: for leads. It is paused until you resume it."""
    with Api(load_config()) as api:
        found = api.post(f"/schedules/{number}/take-over/", {"reason": reason})
    _say_kept(found, as_json)


@app.command()
def change(
    number: Number,
    file: Annotated[str, typer.Option("--job", help="Another job, as YAML or JSON.")] = "",
    every: Annotated[str, Rule] = "",
    zone: Annotated[str, Zone] = "",
    title: Annotated[str, Title] = "",
    overlap: Annotated[str, Overlap] = "",
    most_open: Annotated[int | None, MostOpen] = None,
    late_within: Annotated[int | None, LateWithin] = None,
    pause_after: Annotated[int | None, PauseAfter] = None,
    starts: Annotated[str, Starts] = "",
    ends: Annotated[str, Ends] = "",
    as_json: AsJson = False,
) -> None:
    """Another rule, job or name, from the next due time on; what is not given stays."""
    body = _terms(every, zone, title, overlap, starts, ends)
    body |= _figures(most_open, late_within, pause_after)
    if file:
        body["spec"] = spec.read_job_file(file, spec.read_file(file))
    if not body:
        raise Failure("Nothing to change.", remedy="Give --every, --zone, --job or another option.")
    with Api(load_config()) as api:
        found = api.post(f"/schedules/{number}/", body)
    _say_kept(found, as_json)


@app.command()
def pause(number: Number, reason: Reason = "", as_json: AsJson = False) -> None:
    """Submit nothing more until it is resumed; jobs that are there go on."""
    with Api(load_config()) as api:
        found = api.post(f"/schedules/{number}/pause/", {"reason": reason})
    _say_kept(found, as_json)


@app.command()
def resume(number: Number, as_json: AsJson = False) -> None:
    """Go on with the next due time; those of the pause are gone."""
    with Api(load_config()) as api:
        found = api.post(f"/schedules/{number}/resume/")
    _say_kept(found, as_json)


@app.command("run")
def run_now(number: Number, as_json: AsJson = False) -> None:
    """Submit its job now, beside its due times; twice within a minute it is one job."""
    with Api(load_config()) as api:
        found = api.post(f"/schedules/{number}/run/")
    if as_json:
        print_json(found)
        return
    print_line(f"Job {found['job']} is {found['job_state']}.")
    say(f"Follow it: trainyard logs -f {found['job']}")


@app.command()
def delete(number: Number, reason: Reason = "", as_json: AsJson = False) -> None:
    """Forget it; its jobs stay."""
    with Api(load_config()) as api:
        found = api.post(f"/schedules/{number}/delete/", {"reason": reason})
    if as_json:
        print_json(found)
        return
    print_line(f"Schedule {number} is deleted; its jobs stay.")


def _terms(
    every: str, zone: str, title: str, overlap: str, starts: str, ends: str
) -> dict[str, Any]:
    given = {
        "rule": every,
        "zone": zone,
        "name": title,
        "overlap": overlap,
        "starts_at": spec.read_moment("--from", starts),
        "ends_at": spec.read_moment("--until", ends),
    }
    return {name: value for name, value in given.items() if value}


def _figures(
    most_open: int | None, late_within: int | None, pause_after: int | None
) -> dict[str, Any]:
    given = {"most_open": most_open, "late_within_s": late_within, "pause_after": pause_after}
    return {name: value for name, value in given.items() if value is not None}


def _cells(one: dict[str, Any]) -> list[object]:
    last = "never"
    if one["last_outcome"]:
        last = f"#{one['last_job']} {one['last_job_state']}" if one["last_job"] else ""
        last = last or one["last_outcome"]
    following = moment(one["next_due_at"]) if one["next_due_at"] else "-"
    return [
        *(one["id"], one["name"], one["project"], one["owner"]),
        *(f"{one['rule']} {one['zone']}", one["state"], following, last),
    ]


def _act_cells(one: dict[str, Any]) -> list[object]:
    by = one["actor"] or "itself"
    whose = f" for {one['on_behalf_of']}" if one["on_behalf_of"] else ""
    # Where nothing stood before, it says what was made.
    is_other = any(change["before"] is not None for change in one["changes"])
    changed = ", ".join(
        f"{change['field']}: {change['before'] or '-'} -> {change['after'] or '-'}"
        for change in one["changes"]
        if is_other
    )
    return [moment(one["at"]), one["act"], f"{by}{whose}", changed or "-", one["reason"] or "-"]


def _run_cells(one: dict[str, Any]) -> list[object]:
    return [
        moment(one["due_at"]),
        "by hand" if one["by_hand"] else one["outcome"],
        one["job"] or "-",
        one["job_state"] or "-",
        f"{float(one['cost']):.2f}" if one["cost"] is not None else "-",
        one["said"],
    ]


def _say_kept(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    following = f"next {moment(found['next_due_at'])}" if found["next_due_at"] else found["state"]
    print_line(f"Schedule {found['id']} {found['name']!r}, {found['rule']}: {following}.")
