"""List jobs, ask why, act on them."""

from __future__ import annotations

import json
from typing import Annotated, Any
from urllib.parse import quote

import typer

from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.exits import Failure
from portal.cli.output import (
    JOB_HEADS,
    ago,
    expected_start,
    job_cells,
    moment,
    print_json,
    print_line,
    print_listed,
    print_table,
    print_waiters,
    say,
    share_words,
    span,
)
from portal.cli.session import AsJson, Reason, because
from portal.cli.submit import say_submitted

Number = Annotated[int, typer.Argument(min=1, metavar="JOB", help="The job's number.")]


def jobs(
    state: Annotated[str | None, typer.Option(help="Such as running,queued.")] = None,
    is_all: Annotated[bool, typer.Option("--all", "-a", help="Everybody's you may see.")] = False,
    project: Annotated[str | None, typer.Option("--project", "-p", help="team/project.")] = None,
    pool: Annotated[str | None, typer.Option(help="Only this pool's.")] = None,
    text: Annotated[str | None, typer.Option(help="Part of the name.")] = None,
    job_set: Annotated[
        int | None, typer.Option("--set", min=1, help="Only the tasks of this array.")
    ] = None,
    schedule: Annotated[
        int | None, typer.Option(min=1, help="Only what came of this schedule.")
    ] = None,
    group: Annotated[str | None, typer.Option(help="Only the jobs of this group.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List jobs, newest first: yours, or everybody's with --all."""
    wanted = {"state": state, "project": project, "pool": pool, "text": text, "set": job_set}
    wanted |= {"schedule": schedule, "group": group}
    owner = None if is_all else "me"
    with Api(load_config()) as api:
        found, is_cut = api.first("/jobs/", limit, owner=owner, **wanted)
    empty = "There are no such jobs."
    print_listed(found, JOB_HEADS, job_cells, empty, as_json=as_json, is_cut=is_cut)


def queue(
    pool: Annotated[str, typer.Argument(help="Which pool.")] = "default", as_json: AsJson = False
) -> None:
    """Show who waits for a pool, in the scheduler's order; others' jobs without their names."""
    with Api(load_config()) as api:
        found = api.whole(f"/queue/{quote(pool, safe='')}/")
    if as_json:
        print_json(found)
        return
    if found["is_paused"]:
        say(f"Pool {pool} is paused by an operator: no job starts.")
    rows = [
        [
            place["position"],
            place["job"],
            place["name"] or "another team's",
            place["owner"],
            place["tier"],
            place["gpus"],
            share_words(place),
            ago(place["queued_at"]),
            place["sentence"],
        ]
        for place in found["items"]
    ]
    heads = ("PLACE", "JOB", "NAME", "OWNER", "TIER", "GPUS", "SHARE", "WAITS", "WHY")
    print_table(heads, rows, f"No job waits for pool {pool}.")


def why(
    job: Number,
    options: Annotated[
        bool, typer.Option("--options", help="Also all that blocks it, and what would help.")
    ] = False,
    before: Annotated[
        int | None, typer.Option(min=1, metavar="OTHER", help="Why that job went before it.")
    ] = None,
    retry_on: Annotated[
        list[str] | None,
        typer.Option("--retry-on", help="Which of these rules would have acted on its attempts."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say why a job waits, or how it ended."""
    if retry_on:
        _try_rules(job, retry_on, as_json)
        return
    if before is not None or options:
        _ask(job, before, as_json)
        return
    with Api(load_config()) as api:
        found = api.get(f"/jobs/{job}/why/")
    if as_json:
        print_json(found)
        return
    place = f" Place {found['position']} in the queue." if found["position"] else ""
    print_line(f"Job {job} is {found['state']}: {found['sentence']}{place}")
    _print_wait(found)
    if found["wait"] and found["end"]:
        print_line(f"The last attempt: {found['end']['sentence']}")
    idle = found.get("idle")
    if idle and idle["warnings"] and idle["may_keep"] and idle["hours_left"]:
        print_line(
            f"If it is still needed: trainyard keep {job} --hours {min(4, idle['hours_left'])} "
            "--reason TEXT"
        )
    saved = found.get("checkpoint")
    if saved:
        print_line(
            f"Last checkpoint: step {saved['step']:,}, attempt {saved['attempt']}, on "
            f"{saved['node']}, {ago(saved['taken_at'])} ago."
        )
    triage = found.get("triage")
    if triage:
        _print_triage(triage)


def _print_wait(found: dict[str, Any]) -> None:
    """What it waits for, who waits for it, and how it stands to its moment."""
    facts = (found["wait"] or {}).get("facts", {})
    if words := expected_start(facts.get("start_p50_at"), facts.get("start_p90_at")):
        print_line(words)
    for one in found.get("jobs") or ():
        _print_awaited(one)
    for one in found.get("sets") or ():
        print_line(f"Array {one['id']}: {one['words']}.")
    print_waiters(found)
    if finish := found.get("finish"):
        print_line(f"Finished by {moment(finish['finish_by'])}: {finish['sentence']}")


def _print_awaited(job: dict[str, Any]) -> None:
    """A job that another waits for, and until when, where that is known."""
    until = f", ends by {moment(job['ends_by'])}" if job["ends_by"] else ""
    if job["starts_by"]:
        until = f", starts by {moment(job['starts_by'])}"
    if job["state"]:
        print_line(f"Job {job['id']} is {job['state']}{until}.")


def _try_rules(job: int, rules: list[str], as_json: bool) -> None:
    """What retry rules would have made of the ends of a job's attempts."""
    with Api(load_config()) as api:
        found = api.post(f"/jobs/{job}/retry-rules/", {"retry_rules": rules})
    if as_json:
        print_json(found)
        return
    if not found["items"]:
        print_line(f"No attempt of job {job} has ended.")
    for one in found["items"]:
        print_line(f"Attempt {one['attempt']}: {one['sentence']}")
        print_line(f"  {one['words']}")


def _ask(job: int, before: int | None, as_json: bool) -> None:
    """What the scheduler answers beyond the reason."""
    path = f"/jobs/{job}/options/" if before is None else f"/jobs/{job}/before/{before}/"
    with Api(load_config()) as api:
        found = api.get(path)
    if as_json:
        print_json(found)
    elif before is not None:
        print_line(f"Job {before} before job {job}: {found['sentence']}")
    elif found["answer"] is None:
        print_line(f"Job {job} is {found['state']}; it does not wait for the scheduler.")
    else:
        _print_answer(found["answer"])


def _print_answer(answer: dict[str, Any]) -> None:
    """Options, checks and holders of a waiting job."""
    if answer["starts_now"]:
        print_line("It starts now.")
        return
    if not answer["options"]:
        print_line("Nothing that was tried would start sooner.")
    for option in answer["options"]:
        when = "now" if option["starts_now"] else f"in {span(option['wait_s'])}"
        print_line(f"{option['words']}: {when}")
    for one in answer.get("also", ()):
        print_line(f"In pool {one['pool']}: {one['sentence']}")
    heads = ("CHECK", "OK", "NEEDS", "THERE")
    rows = [
        [check["reason"], "yes" if check["is_ok"] else "no", check["need"], check["have"]]
        for check in answer["checks"]
    ]
    print_table(heads, rows, "")
    holders = [
        [holder["job"] or "another team's", holder["gpus"], holder["until"] or "unknown"]
        for holder in answer["holders"]
    ]
    print_table(("HELD BY", "GPUS", "UNTIL"), holders, "Nobody holds what it needs.")
    if answer["other_holders"]:
        print_line(f"and {answer['other_holders']} more jobs")


def _print_triage(triage: dict[str, Any]) -> None:
    """Class, evidence, advice and who pays, of the last failed attempt."""
    print_line(f"Attempt {triage['attempt']}: {triage['title']} ({triage['failure']}).")
    for one in triage["evidence"]:
        where = f"rank {one['rank']}, line {one['line']}" if one["line"] else "node's report"
        print_line(f"  {where}: {one['text']}")
    if triage["advice"]:
        print_line(f"What to do: {triage['advice']}")
    print_line(f"Fault of: {triage['whose']}.")
    print_line(f"Retries and cost: {triage['retry']}")


def cancel(job: Number, reason: Reason = None, as_json: AsJson = False) -> None:
    """End a job early; an ended job stays as it is."""
    _act(job, "cancel", reason, as_json)


def hold(job: Number, reason: Reason = None, as_json: AsJson = False) -> None:
    """Keep a queued job from starting."""
    _act(job, "hold", reason, as_json)


def release(job: Number, reason: Reason = None, as_json: AsJson = False) -> None:
    """Let a held job start."""
    _act(job, "release", reason, as_json)


def pause(job: Number, reason: Reason = None, as_json: AsJson = False) -> None:
    """Let a running job save its work and release its GPUs; it keeps its place in the queue."""
    _act(job, "pause", reason, as_json)


def resume(job: Number, reason: Reason = None, as_json: AsJson = False) -> None:
    """Let a paused job go on from its last checkpoint, in its old place."""
    _act(job, "resume", reason, as_json)


def _act(number: int, action: str, reason: str | None, as_json: bool) -> None:
    with Api(load_config()) as api:
        job = api.post(f"/jobs/{number}/{action}/", because(reason))
    if as_json:
        print_json(job)
        return
    print_line(f"Job {number} is {job['shown_state']}.")


def clone(
    job: Number,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="Change a field: --set time_limit=4h.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Submit a job again, with changes."""
    fields = {}
    for change in changes or ():
        name, sign, value = change.partition("=")
        if not sign:
            raise Failure(f"--set {change}: write it as field=value.")
        fields[name] = _value(value)
    with Api(load_config()) as api:
        body = json.dumps({"changes": fields}).encode()
        made = api.submit(f"/jobs/{job}/clone/", body, "application/json")
    if as_json:
        print_json(made)
        return
    say_submitted(made, quiet=False)


def _value(text: str) -> Any:
    """JSON where it reads as JSON, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text
