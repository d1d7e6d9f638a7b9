"""Submitting a job: from a file, from options, or from both."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from decimal import Decimal
from typing import Any

import typer

from portal.cli import follow, options, spec
from portal.cli.client import Api
from portal.cli.composing.convert import is_batch_script, read_batch
from portal.cli.config import load_config
from portal.cli.exits import Failure
from portal.cli.output import LogWriter, moment, money, price, print_json, print_line, say, span
from portal.cli.session import AsJson

_MOSTLY = "in 9 of 10 cases"


@options.taking(options.What, options.Resources, options.When, options.How)
def submit(
    context: typer.Context, file: options.AsFile = "", as_json: AsJson = False, **given: Any
) -> None:
    """Submit a job: trainyard submit job.yaml, or trainyard submit OPTIONS -- COMMAND."""
    command = context.obj or ()
    template = given["template"]
    if not (file or command or given["script"] or template):
        raise Failure(
            "There is nothing to run.",
            remedy="Name a file, use --script, or put the command after -- at the end.",
        )
    fields = fields_of(given)
    key, is_followed = given["key"], given["is_followed"]
    with Api(load_config()) as api:
        raw = spec.read_file(file) if file else b""
        held = held_by(api, template) if template else ()
        if is_batch_script(raw):
            project, even_if_lost = given["project"] or "", given["even_if_lost"]
            raw = read_batch(file, raw, api, project=project, even_if_lost=even_if_lost, held=held)
        content, kind = spec.content_of(file, raw, fields, command, api, held)
        query: dict[str, Any] = {"template": template or None}
        if given["dry_run"]:
            _show_quote(api.submit("/jobs/", content, kind, key=key, dry_run=1, **query), as_json)
            return
        moments = {"begin": given["begin"], "finish-by": given["finish_by"]}
        typed = {name: "".join(text.split()) for name, text in moments.items() if text[:1] == "+"}
        job = api.submit("/jobs/", content, kind, key=key, typed=typed, **query)
        if is_followed or given["is_awaited"]:
            _stay(api, job, is_followed=is_followed, as_json=as_json)
    if as_json:
        print_json(job)
    else:
        say_submitted(job, quiet=False)


def held_by(api: Api, template: str) -> Collection[str]:
    """The fields that a template says, of the version that is named or the newest."""
    slug, _, number = template.partition("@")
    path = f"/templates/{slug}/"
    versions = api.everything(path, name="versions") if number else api.get(path)["versions"]
    found = [one for one in versions if not number or str(one["number"]) == number]
    return found[0]["spec"].keys() if found else ()


# Options whose name is that of the field.
_SAME = (
    "project", "name", "tier", "nodes", "node_sizes", "gpu_milli", "gpu_memory",
    "gpu_model", "gpu_models", "fallback_after", "isolation", "share_cards", "exclusive", "cpus",
    "memory", "scratch", "licences", "constraints", "exclude_nodes", "datasets", "topology",
    "array", "booking", "preemptible", "min_runtime", "max_cost", "processes", "retries",
    "checkpoint_dir", "secrets", "disconnect_grace", "finish_by_policy", "notify", "group",
    "group_policy",
)  # fmt: skip


def fields_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options by the names of the spec's fields; empty ones were not given."""
    code = {name: given[name] for name in ("folder", "git_url", "git_ref") if given[name]}
    pool, others = given["pool"], given["other_pools"]
    if not others:
        # In place of those that a template or a file names.
        pool, _, others = pool.partition(",")
    return {
        **{name: given[name] for name in _SAME},
        "pool": pool,
        "other_pools": others,
        "gpus_per_node": given["gpus"],
        "time_limit": given["time"],
        "depends_on": [
            one for text in given["depends_on"] or () for one in text.split(",") if one.strip()
        ],
        "retry_rules": list(given["retry_rules"] or ()),
        "begin": spec.read_moment("--begin", given["begin"]),
        "finish_by": spec.read_moment("--finish-by", given["finish_by"]),
        "script": spec.read_script(given["script"]) if given["script"] else "",
        "env": spec.read_env(given["env"] or ()),
        "working_dir": given["workdir"],
        "code": code,
        "hold": given["hold"] or None,
    }


def _stay(api: Api, job: dict[str, Any], *, is_followed: bool, as_json: bool) -> None:
    """Wait for the job's end and leave with the exit code that mirrors it."""
    say_submitted(job, quiet=as_json)
    if job["set"]:
        if is_followed:
            say("An array has a log for each task; this waits for the end of all.")
        done = follow.until_set_end(api, job["set"])
        follow.finish_set(done, as_json=as_json, is_compact=is_followed)
    if is_followed:
        with closing(follow.LineWriter() if as_json else LogWriter()) as writer:
            follow.follow(api, job["id"], writer=writer)
    follow.finish(follow.until_end(api, job["id"]), as_json=as_json, is_compact=is_followed)


def say_submitted(job: dict[str, Any], *, quiet: bool) -> None:
    """Tell a person the number, and how to go on."""
    line = f"Job {job['id']} {job['name']!r} is {job['state']} in pool {job['pool']}."
    if quiet:
        say(line)
        return
    if job.get("set"):
        number = job["set"]
        print_line(f"Array {number} is submitted; its first task is job {job['id']}.")
        say(f"See how far it is: trainyard sets show {number}")
        say(f"Wait for all its tasks: --depends-on afterok:set={number}, or afterany:set={number}")
        return
    print_line(line)
    say(f"Follow it: trainyard logs -f {job['id']}")


def _show_quote(quote_: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(quote_)
        return
    free = f"{quote_['free_gpus']:,} of {quote_['total_gpus']:,} are free"
    tasks = f"{quote_['tasks']} tasks of " if quote_["tasks"] > 1 else ""
    gpus = f"{quote_['gpus']} GPU{'' if quote_['gpus'] == 1 else 's'}"
    print_line(f"It is valid. {tasks}{gpus} in pool {quote_['pool']}; {free},")
    ahead = quote_["jobs_ahead"]
    print_line(f"{ahead:,} job{' is' if ahead == 1 else 's are'} ahead of it.")
    _show_estimate(quote_)
    _show_finish(quote_)
    cost = _price(quote_, quote_["worst_case_cost"])
    print_line(f"At most it costs {cost}, if it runs until its time limit.")
    for said in (quote_.get("choice"), quote_.get("highest"), quote_.get("group")):
        if said:
            print_line(said)
    if quote_["unit_price"] is not None:
        print_line(f"A GPU-hour costs {price(quote_['unit_price'], quote_['currency'])}.")
    for one in quote_["limits"]:
        most = "no maximum" if one["maximum"] is None else f"at most {one['maximum']}"
        over = "; more than it may hold" if one["is_over"] else ""
        print_line(
            f"Quota of {one['whose']} ({one['scope']}): {one['held']} GPUs held now, "
            f"{one['after']} after, {one['guaranteed']} guaranteed, {most}{over}."
        )
    for one in quote_["budgets"]:
        after = "no price set" if one["after"] is None else f"{Decimal(one['after']):.2f}"
        over = "; not enough" if one["is_over"] else ""
        if one.get("enforcement") == "warn":
            over += "; it only warns"
        then = "renewed" if one["renews"] else "over"
        print_line(
            f"Budget of {one['whose']}: {Decimal(one['left']):.2f} {one['unit']} left now, "
            f"{after} after{over}; {then} {moment(one['until'])}."
        )


def _show_estimate(quote_: dict[str, Any]) -> None:
    guess = quote_["estimate"]
    if guess is None:
        return
    if guess["start_p50_at"] and guess["start_p90_at"]:
        half, most = (moment(guess[f"start_p{each}_at"]) for each in (50, 90))
        print_line(f"It starts about {half} ({_MOSTLY} by {most}). {guess['why']}".strip())
        if guess["last_start_p90_at"]:
            last = moment(guess["last_start_p90_at"])
            print_line(f"Its last task starts by {last}, {_MOSTLY}.")
    else:
        print_line(guess["why"] or "Nobody knows when it starts.")
    run = f"{span(guess['run_p50_s'])} ({_MOSTLY} at most {span(guess['run_p90_s'])})"
    print_line(f"It runs about {run}, by {guess['basis']}.")
    if guess["cost_p50"] is not None:
        about, p90 = (money(guess[f"cost_p{each}"], quote_["currency"]) for each in (50, 90))
        print_line(f"It costs about {about} ({_MOSTLY} at most {p90}).")


def _show_finish(quote_: dict[str, Any]) -> None:
    """Whether it is done by its moment, and what was found to help."""
    if quote_.get("finish") is None:
        return
    print_line(quote_["finish"]["sentence"])
    for one in quote_.get("remedies", ()):
        end, cost = one["end_p50_at"], _price(quote_, one["cost_p50"])
        done = f"done about {moment(end)}, " if end else ""
        print_line(f"With {one['words']} it is likely: {done}it costs about {cost}.")


def _price(quote_: dict[str, Any], amount: Any) -> str:
    return (
        "an unknown amount: no price set" if amount is None else money(amount, quote_["currency"])
    )
