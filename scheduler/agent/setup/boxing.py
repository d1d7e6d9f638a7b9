"""What a job in a sandbox sees: the system, its own folders, what the operator shows, its GPUs; and
what git sees that brings its code."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from scheduler.agent.config import Options
from scheduler.agent.runtime.records import SandboxPlan
from scheduler.agent.runtime.space import sandbox
from scheduler.agent.setup.environment import Places
from scheduler.agent.setup.folders import report_socket
from scheduler.agent.setup.private import Private
from scheduler.agent.setup.problems import SetupProblem
from scheduler.wire.messages import Assignment


def plan_sandbox(
    program: str,
    options: Options,
    assignment: Assignment,
    places: Places,
    *,
    root: Path,
    devices: tuple[str, ...],
    private: Private,
) -> SandboxPlan:
    """The sandbox of one attempt. Raises SetupProblem where the job needs what is not shown.

    `root`: the attempt's own folder; `devices`: files of the granted cards; `private`: what
    it has in memory.
    """
    if not options.sandbox_network and len(assignment.addresses) > 1:
        raise SetupProblem(
            "nodes: jobs on this node have no network, so a job of several nodes cannot run here. "
            "Ask for one node, or for another pool."
        )
    if not options.sandbox_network and assignment.launch.processes_per_node > 1:
        # Each has a sandbox of its own, and so a loopback of its own.
        raise SetupProblem(
            "processes_per_node: processes of jobs on this node cannot reach each other, for each "
            "has no network but its own. Start one that starts the others, as torchrun does, or "
            "ask for another pool."
        )
    kept = [str(root), places.output]
    if Path(places.checkpoint).is_relative_to(options.work):
        kept.append(places.checkpoint)
    shown = (*options.expose, *options.share)
    resumes = places.resume_from
    is_apart = resumes and not sandbox.is_below(resumes, (*kept, *shown))
    # The folder: a socket made anew by the next agent is another file.
    reports = str(report_socket(options.work).parent)
    apart = (resumes if is_apart else "", private.secrets_dir, reports)
    return SandboxPlan(
        program=program,
        own=tuple(kept),
        own_read_only=tuple(path for path in apart if path),
        temporary=places.scratch,
        read_only=options.expose,
        writable=options.share,
        hidden=_hidden(options),
        devices=devices,
        shared_memory=private.shared_memory,
        network=options.sandbox_network,
    )


def plan_git(program: str, options: Options, root: Path) -> SandboxPlan | None:
    """The sandbox of git for an attempt with this folder, None where `program` is empty: what the
    operator shows to jobs, to be read only. Where the code goes is added by who runs git."""
    if not program:
        return None
    return SandboxPlan(
        program=program,
        own=(),
        own_read_only=(str(root / "work"), str(root / "gitconfig")),
        temporary=str(root / "scratch"),
        read_only=(*options.expose, *options.share),
        hidden=_hidden(options),
    )


def _hidden(options: Options) -> tuple[str, ...]:
    """What is the agent's within what is shown."""
    places = {str(place) for place in (options.state, options.work)}
    shown = (*options.expose, *options.share)
    return tuple(sorted(place for place in places if sandbox.is_below(place, shown)))


def check_places(plan: SandboxPlan, places: Iterable[tuple[str, str]]) -> None:
    """Refuse folders, given as (field, path), that nobody shows to jobs."""
    for name, path in places:
        if path and not sandbox.sees(plan, path):
            raise SetupProblem(
                f"{name}: {path} is not shown to jobs on this node, which run in a sandbox. Use "
                "the folders the job is given, or have the node's operator start the agent with "
                "--share (writable) or --expose (read-only) for it."
            )
