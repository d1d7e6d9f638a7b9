"""The options of `trainyard submit`, one for each field of a job."""

from __future__ import annotations

from typing import Annotated

import typer

SpecFile = Annotated[str, typer.Argument(help="A job as YAML or JSON; - is standard input.")]
Project = Annotated[str, typer.Option("--project", "-p", help="team/project that pays.")]
JobName = Annotated[str, typer.Option(help="What to call it.")]
Pool = Annotated[str, typer.Option(help="Which pool.")]
Tier = Annotated[str, typer.Option(help="exploratory, normal, urgent or production.")]
Nodes = Annotated[int | None, typer.Option(help="How many nodes.")]
Gpus = Annotated[int | None, typer.Option(help="GPUs per node.")]
GpuModel = Annotated[str, typer.Option(help="Only GPUs of this model.")]
Cpus = Annotated[int | None, typer.Option(help="CPU cores per node.")]
Memory = Annotated[str, typer.Option(help="Memory per node, such as 16GB.")]
TimeLimit = Annotated[str, typer.Option("--time", help="Time limit, such as 90m or 1d12h.")]
Script = Annotated[str, typer.Option(help="Run this script file instead of a command.")]
Env = Annotated[
    list[str] | None, typer.Option("--env", "-e", help="NAME=value, or NAME as it is here.")
]
Workdir = Annotated[str, typer.Option(help="Folder on the node to run in.")]
CodeFolder = Annotated[str, typer.Option(help="Folder on the node that holds the code.")]
GitUrl = Annotated[str, typer.Option(help="Fetch the code from this repository.")]
GitRef = Annotated[str, typer.Option(help="Branch, tag or commit to fetch.")]
Processes = Annotated[str, typer.Option(help="One process per node or per gpu.")]
Retries = Annotated[int | None, typer.Option(help="How often to try again.")]
CheckpointDir = Annotated[str, typer.Option(help="Where checkpoints are kept.")]
Hold = Annotated[bool, typer.Option("--hold", help="Keep it from starting.")]
IdempotencyKey = Annotated[str, typer.Option(help="Idempotency key: the same key, the same job.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only check it and price it.")]
Followed = Annotated[
    bool, typer.Option("--follow", "-f", help="Show its log until it ends; mirror its end.")
]
Awaited = Annotated[bool, typer.Option("--wait", help="Wait for its end and mirror it.")]
