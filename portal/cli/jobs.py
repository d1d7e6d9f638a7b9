"""Submit jobs, list them, ask why, act on them."""

from __future__ import annotations

import json
from typing import Annotated, Any
from urllib.parse import quote

import typer

from portal.cli import follow, spec
from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.exits import Failure
from portal.cli.output import (
    JOB_HEADS,
    ago,
    job_cells,
    money,
    print_json,
    print_line,
    print_table,
    say,
)
from portal.cli.session import AsJson

Number = Annotated[int, typer.Argument(min=1, metavar="JOB", help="The job's number.")]


def submit(
    context: typer.Context,
    file: Annotated[str, typer.Argument(help="A job as YAML or JSON; - is standard input.")] = "",
    project: Annotated[str, typer.Option("--project", "-p", help="team/project that pays.")] = "",
    name: Annotated[str, typer.Option(help="What to call it.")] = "",
    pool: Annotated[str, typer.Option(help="Which pool.")] = "",
    tier: Annotated[str, typer.Option(help="exploratory, normal, urgent or production.")] = "",
    nodes: Annotated[int | None, typer.Option(help="How many nodes.")] = None,
    gpus: Annotated[int | None, typer.Option(help="GPUs per node.")] = None,
    gpu_model: Annotated[str, typer.Option(help="Only GPUs of this model.")] = "",
    cpus: Annotated[int | None, typer.Option(help="CPU cores per node.")] = None,
    memory: Annotated[str, typer.Option(help="Memory per node, such as 16GB.")] = "",
    time: Annotated[str, typer.Option("--time", help="Time limit, such as 90m or 1d12h.")] = "",
    script: Annotated[str, typer.Option(help="Run this script file instead of a command.")] = "",
    env: Annotated[
        list[str] | None, typer.Option("--env", "-e", help="NAME=value, or NAME as it is here.")
    ] = None,
    workdir: Annotated[str, typer.Option(help="Folder on the node to run in.")] = "",
    folder: Annotated[str, typer.Option(help="Folder on the node that holds the code.")] = "",
    git_url: Annotated[str, typer.Option(help="Fetch the code from this repository.")] = "",
    git_ref: Annotated[str, typer.Option(help="Branch, tag or commit to fetch.")] = "",
    processes: Annotated[str, typer.Option(help="One process per node or per gpu.")] = "",
    retries: Annotated[int | None, typer.Option(help="How often to try again.")] = None,
    checkpoint_dir: Annotated[str, typer.Option(help="Where checkpoints are kept.")] = "",
    hold: Annotated[bool, typer.Option("--hold", help="Keep it from starting.")] = False,
    key: Annotated[str, typer.Option(help="Idempotency key: the same key, the same job.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check it and price it.")] = False,
    is_followed: Annotated[
        bool, typer.Option("--follow", "-f", help="Show its log until it ends; mirror its end.")
    ] = False,
    is_awaited: Annotated[
        bool, typer.Option("--wait", help="Wait for its end and mirror it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Submit a job: trainyard submit job.yaml, or trainyard submit OPTIONS -- COMMAND."""
    code = {"folder": folder, "git_url": git_url, "git_ref": git_ref}
    options = {
        "project": project, "name": name, "pool": pool, "tier": tier, "nodes": nodes,
        "gpus_per_node": gpus, "gpu_model": gpu_model, "cpus": cpus, "memory": memory,
        "time_limit": time, "script": spec.read_script(script) if script else "",
        "env": spec.read_env(env or ()), "working_dir": workdir, "processes": processes,
        "code": {field: value for field, value in code.items() if value}, "retries": retries,
        "checkpoint_dir": checkpoint_dir, "hold": True if hold else None,
    }  # fmt: skip
    command = context.obj or ()
    if not (file or command or script):
        raise Failure(
            "There is nothing to run.",
            remedy="Name a file, use --script, or put the command after -- at the end.",
        )
    with Api(load_config()) as api:
        content, kind = spec.content_of(file, options, command, api)
        if dry_run:
            _show_quote(api.submit("/jobs/", content, kind, key=key, dry_run=1), as_json)
            return
        job = api.submit("/jobs/", content, kind, key=key)
        if as_json and not (is_followed or is_awaited):
            print_json(job)
            return
        _say_submitted(job, quiet=as_json)
        if is_followed:
            follow.follow(api, job["id"])
        if is_followed or is_awaited:
            ended = follow.until_end(api, job["id"])
            follow.finish(ended, as_json=as_json)


def _say_submitted(job: dict[str, Any], *, quiet: bool) -> None:
    line = f"Job {job['id']} {job['name']!r} is {job['state']} in pool {job['pool']}."
    if quiet:
        say(line)
        return
    print_line(line)
    say(f"Follow it: trainyard logs -f {job['id']}")


def _show_quote(quote_: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(quote_)
        return
    free = f"{quote_['free_gpus']} of {quote_['total_gpus']} are free"
    print_line(f"It is valid. {quote_['gpus']} GPUs in pool {quote_['pool']}; {free},")
    print_line(f"{quote_['jobs_ahead']} jobs are ahead of it.")
    cost = money(quote_["worst_case_cost"], quote_["currency"])
    print_line(f"At most it costs {cost}, if it runs until its time limit.")


def jobs(
    state: Annotated[str | None, typer.Option(help="Such as running,queued.")] = None,
    is_all: Annotated[bool, typer.Option("--all", "-a", help="Everybody's you may see.")] = False,
    project: Annotated[str | None, typer.Option("--project", "-p", help="team/project.")] = None,
    pool: Annotated[str | None, typer.Option(help="Only this pool's.")] = None,
    text: Annotated[str | None, typer.Option(help="Part of the name.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List jobs, newest first: yours, or everybody's with --all."""
    wanted = {"state": state, "project": project, "pool": pool, "text": text}
    owner = None if is_all else "me"
    with Api(load_config()) as api:
        found = list(api.pages("/jobs/", limit, owner=owner, **wanted))
    if as_json:
        print_json(found)
        return
    print_table(JOB_HEADS, [job_cells(job) for job in found], "There are no such jobs.")


def queue(
    pool: Annotated[str, typer.Argument(help="Which pool.")] = "default", as_json: AsJson = False
) -> None:
    """Show who waits for a pool, in the scheduler's order; others' jobs without their names."""
    with Api(load_config()) as api:
        found = api.get(f"/queue/{quote(pool, safe='')}/")
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
            ago(place["queued_at"]),
            place["sentence"],
        ]
        for place in found["items"]
    ]
    heads = ("PLACE", "JOB", "NAME", "OWNER", "TIER", "GPUS", "WAITS", "WHY")
    print_table(heads, rows, f"No job waits for pool {pool}.")


def why(job: Number, as_json: AsJson = False) -> None:
    """Say why a job waits, or how it ended."""
    with Api(load_config()) as api:
        found = api.get(f"/jobs/{job}/why/")
    if as_json:
        print_json(found)
        return
    place = f" Place {found['position']} in the queue." if found["position"] else ""
    print_line(f"Job {job} is {found['state']}: {found['sentence']}{place}")


def cancel(job: Number, as_json: AsJson = False) -> None:
    """End a job early; an ended job stays as it is."""
    _act(job, "cancel", as_json)


def hold(job: Number, as_json: AsJson = False) -> None:
    """Keep a queued job from starting."""
    _act(job, "hold", as_json)


def release(job: Number, as_json: AsJson = False) -> None:
    """Let a held job start."""
    _act(job, "release", as_json)


def _act(number: int, action: str, as_json: bool) -> None:
    with Api(load_config()) as api:
        job = api.post(f"/jobs/{number}/{action}/")
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
    _say_submitted(made, quiet=False)


def _value(text: str) -> Any:
    """JSON where it reads as JSON, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text
