"""The options of `trainyard submit`, one for each field of a job."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

AsFile = Annotated[str, typer.Argument(help="A job as YAML, JSON or sbatch script; - is stdin.")]


class What:
    """The program, who pays for it, and where it runs."""

    project: Annotated[str, typer.Option("--project", "-p", help="team/project that pays.")] = ""
    name: Annotated[str, typer.Option(help="What to call it.")] = ""
    pool: Annotated[
        str, typer.Option(help="Which pool; with commas several, the most wanted first.")
    ] = ""
    other_pools: Annotated[
        str, typer.Option(help="Where it may start instead, if it starts there sooner: a100,v100.")
    ] = ""
    tier: Annotated[str, typer.Option(help="exploratory, normal, urgent or production.")] = ""
    template: Annotated[
        str, typer.Option("--template", "-t", help="Start from it: vision-ddp, or vision-ddp@3.")
    ] = ""
    script: Annotated[str, typer.Option(help="Run this script file instead of a command.")] = ""
    env: Annotated[
        list[str] | None, typer.Option("--env", "-e", help="NAME=value, or NAME as it is here.")
    ] = None
    workdir: Annotated[str, typer.Option(help="Folder on the node to run in.")] = ""
    folder: Annotated[str, typer.Option(help="Folder on the node that holds the code.")] = ""
    git_url: Annotated[str, typer.Option(help="Fetch the code from this repository.")] = ""
    git_ref: Annotated[str, typer.Option(help="Branch, tag or commit; retries keep it.")] = ""
    processes: Annotated[str, typer.Option(help="One process per node or per gpu.")] = ""
    retries: Annotated[int | None, typer.Option(help="How often to try again.")] = None
    retry_rules: Annotated[
        list[str] | None,
        typer.Option(
            "--retry-on",
            help="exit=75,77:3:wait=1m..10m, signal=SEGV:2, failure=user_resource:stop, "
            "exit=1:2:log=NCCL; each once more, the first that meets an end decides.",
        ),
    ] = None
    checkpoint_dir: Annotated[str, typer.Option(help="Where checkpoints are kept.")] = ""


class Resources:
    """How much of what, per node."""

    nodes: Annotated[str, typer.Option(help="How many nodes: 4, or 2..8 for what is free.")] = ""
    node_sizes: Annotated[str, typer.Option(help="Allowed numbers of nodes, such as 2,4,8.")] = ""
    gpus: Annotated[int | None, typer.Option(help="GPUs per node; 0 for none.")] = None
    gpu_milli: Annotated[
        str, typer.Option("--gpu-part", help="A part of one GPU, such as 0.25.")
    ] = ""
    gpu_memory: Annotated[str, typer.Option(help="Memory each GPU needs, such as 40GB.")] = ""
    gpu_model: Annotated[str, typer.Option(help="Only GPUs of this model.")] = ""
    gpu_models: Annotated[str, typer.Option(help="Models in the order you prefer them.")] = ""
    fallback_after: Annotated[
        str, typer.Option(help="How long to wait for a model before the next one will do.")
    ] = ""
    isolation: Annotated[
        str, typer.Option(help="Of a part of a GPU, at least: any, timeslice, mps or mig.")
    ] = ""
    share_cards: Annotated[
        bool | None,
        typer.Option("--share-cards/--no-share-cards", help="Other teams may be on the card."),
    ] = None
    exclusive: Annotated[
        bool | None, typer.Option("--exclusive/--no-exclusive", help="Nobody else on its nodes.")
    ] = None
    cpus: Annotated[int | None, typer.Option(help="CPU cores per node.")] = None
    memory: Annotated[str, typer.Option(help="Memory per node, such as 16GB.")] = ""
    scratch: Annotated[str, typer.Option(help="Scratch disk per node, such as 200GB.")] = ""
    licences: Annotated[str, typer.Option(help="Licence tokens, such as solver=2,viewer.")] = ""
    constraints: Annotated[
        str, typer.Option(help="Labels of nodes, such as network=ib,rack!=r3.")
    ] = ""
    secrets: Annotated[str, typer.Option(help="Kept secrets it gets as files: hub-token.")] = ""
    exclude_nodes: Annotated[str, typer.Option(help="Nodes to stay away from.")] = ""
    datasets: Annotated[str, typer.Option(help="Data it reads: nodes that hold it first.")] = ""
    topology: Annotated[
        str, typer.Option(help="rack or block; rack:preferred or rack:balanced are softer.")
    ] = ""


class When:
    """When it may start, for how long, and what for."""

    time: Annotated[str, typer.Option("--time", help="Time limit, such as 90m or 1d12h.")] = ""
    max_cost: Annotated[
        str,
        typer.Option(
            help="All its attempts cost no more, such as 12.50, and budgets in money keep no more; "
            "of an array each task."
        ),
    ] = ""
    begin: Annotated[str, typer.Option(help="Not before: 2026-12-31T08:00Z, or +2h from now.")] = ""
    finish_by: Annotated[
        str, typer.Option(help="Has to be finished by: 2026-12-31T08:00Z, or +6h from now.")
    ] = ""
    finish_by_policy: Annotated[
        str, typer.Option(help="When late: keep (goes on) or cancel (never starts too late).")
    ] = ""
    depends_on: Annotated[
        list[str] | None,
        typer.Option(
            "--depends-on",
            "-d",
            help="afterok:12, afternotok:, afterany:, singleton; afterok:set=4: all of array 4; "
            "aftercorr:set=4: each task of this array for that of its index.",
        ),
    ] = None
    group: Annotated[
        str, typer.Option(help="The newest of a group cancels older ones that wait: eval/main.")
    ] = ""
    group_policy: Annotated[
        str,
        typer.Option(
            help="Of the group's running ones: wait (for their end), stop (them) or beside."
        ),
    ] = ""
    array: Annotated[str, typer.Option(help="Once for each index: 0-99, or 0-99%10.")] = ""
    booking: Annotated[str, typer.Option(help="Run inside this booking.")] = ""
    preemptible: Annotated[
        bool | None,
        typer.Option("--preemptible/--no-preemptible", help="Whether others may stop it."),
    ] = None
    min_runtime: Annotated[
        str, typer.Option(help="Not stopped for others before it has run so long.")
    ] = ""
    disconnect_grace: Annotated[
        str, typer.Option(help="Runs on so long while its node cannot reach the portal: 1m to 24h.")
    ] = ""
    notify: Annotated[
        str,
        typer.Option(
            help="Tell me of: start, end, fail, retry, preempt, warn (80, 90 % of the limit); with "
            "array of each task; none: nothing. Else as my settings say."
        ),
    ] = ""
    hold: Annotated[bool, typer.Option("--hold", help="Keep it from starting.")] = False


class How:
    """What the command itself does."""

    key: Annotated[str, typer.Option(help="Idempotency key: the same key, the same job.")] = ""
    even_if_lost: Annotated[
        bool, typer.Option("--even-if-lost", help="Submit an sbatch script without what is lost.")
    ] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check it and price it.")] = False
    is_followed: Annotated[
        bool,
        typer.Option(
            "--follow",
            "-f",
            help="Show its log until it ends; mirror its end. --json: line by line.",
        ),
    ] = False
    is_awaited: Annotated[bool, typer.Option("--wait", help="Wait for its end and mirror it.")] = (
        False
    )


def taking(*groups: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of these classes; it receives them as keyword arguments."""

    def give(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        own = [
            parameter.replace(annotation=hints[name])
            for name, parameter in inspect.signature(command).parameters.items()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        more = {}
        for group in groups:
            for name, hint in get_type_hints(group, include_extras=True).items():
                hint.__metadata__[0].rich_help_panel = group.__name__
                more[name] = (hint, getattr(group, name))
        kind = inspect.Parameter.KEYWORD_ONLY
        added = [
            inspect.Parameter(name, kind, default=default, annotation=hint)
            for name, (hint, default) in more.items()
        ]
        described: Any = command
        described.__signature__ = inspect.Signature([*own, *added])
        command.__annotations__ = {one.name: one.annotation for one in (*own, *added)}
        return command

    return give
