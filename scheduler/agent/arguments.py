"""The agent's command line."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

from scheduler.agent.config import (
    DEFAULT_SIMULATED_MODEL,
    NodeIdentity,
    Options,
    choose_work_folder,
    with_libraries,
)
from scheduler.agent.enrol import TOKEN_VARIABLE, checked_name
from scheduler.states import Isolation
from scheduler.wire.messages import AGENT_VERSION

_EXITS = """
exit codes: 0 done, or stopped by SIGTERM or SIGINT; 1 the agent failed; 2 wrong arguments;
3 not enrolled or not configured; 4 preflight failed; 5 enrolment refused; 6 server not
reachable; 7 another node uses this identity; 8 the server no longer speaks this agent's
protocol; 9 another agent uses this state folder
"""
_DEFAULT_STATE = Path("/var/lib/trainyard")


def build_parser() -> argparse.ArgumentParser:
    """`enrol`, `run` and `preflight` with their options."""
    parser = argparse.ArgumentParser(
        prog="trainyard-agent",
        description="Runs training jobs on this node for a Trainyard portal.",
        epilog=_EXITS,
    )
    parser.add_argument("--version", action="version", version=AGENT_VERSION)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    enrol = commands.add_parser("enrol", help="introduce this node to a portal, once")
    _add_node(enrol)
    enrol.add_argument("--token", default="", help="single-use token (seen by `ps`; see below)")
    enrol.add_argument("--token-file", type=Path, help=f"file with it; else {TOKEN_VARIABLE}")
    enrol.add_argument("--run", action="store_true", help="go on running afterwards")
    enrol.add_argument("--skip-preflight", action="store_true", help="enrol whatever it says")
    _add_run(enrol)
    run = commands.add_parser("run", help="serve the portal this node is enrolled at")
    _add_state(run)
    _add_run(run)
    preflight = commands.add_parser("preflight", help="check this node and say what to do")
    _add_node(preflight)
    return parser


def _add_state(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--state", type=Path, default=_DEFAULT_STATE, help="default %(default)s")
    parser.add_argument("--verbose", action="store_true", help="say more")


def _add_node(parser: argparse.ArgumentParser) -> None:
    _add_state(parser)
    parser.add_argument("--server", type=_server, required=True, help="the portal's address")
    parser.add_argument("--name", default="", help="default: this host's name")
    parser.add_argument("--simulated-gpus", type=_count, default=0, metavar="N")
    parser.add_argument("--simulated-model", default=DEFAULT_SIMULATED_MODEL, metavar="MODEL")
    parser.add_argument("--cpus", type=_count, default=0, help="offer only so many")
    parser.add_argument("--memory-mib", type=_count, default=0, help="offer only so much")
    parser.add_argument("--address", default="", help="where other nodes reach this one")


def _add_run(parser: argparse.ArgumentParser) -> None:
    chosen = Options(Path(), Path())
    add = parser.add_argument
    add("--work", type=Path, help="jobs' own folders; default: in or near the state folder")
    add("--hold-s", type=_seconds, default=chosen.hold_s, help="how long a sync may be held")
    add("--sample-s", type=_seconds, default=chosen.sample_s, help="between samples under load")
    add("--heartbeat-s", type=_seconds, default=chosen.heartbeat_s, help="between idle syncs")
    add("--retry-cap-s", type=_seconds, default=chosen.retry_cap_s, help="longest back-off")
    add("--disconnect-grace-s", type=_seconds, default=chosen.disconnect_grace_s)
    add("--keep-work-s", type=_seconds, default=chosen.keep_work_s)
    add("--keep-checkpoints-s", type=_seconds, default=chosen.keep_checkpoints_s)
    add("--spool-cap-mib", type=_count, default=chosen.spool_cap_mib, help="log kept per attempt")
    add("--min-free-mib", type=_count, default=chosen.min_free_mib, help="refuse jobs below it")
    add(
        "--job-uids",
        type=_uids,
        default=chosen.job_uids,
        metavar="FIRST-LAST",
        help="user ids of jobs when root; `same`: jobs run as the agent's own user",
    )
    add("--ports", type=_range, default=chosen.ports, metavar="FIRST-LAST", help="of rank 0")
    add("--path-prefix", action="append", default=[], metavar="DIR", help="before jobs' PATH")
    add("--library-path", action="append", default=[], metavar="DIR", help="libraries for jobs")
    add("--expose", action="append", default=[], metavar="DIR", help="show it to jobs")
    add(
        "--isolation",
        type=Isolation,
        choices=tuple(Isolation),
        help="how jobs are kept apart; default: user for root, else none",
    )
    add("--share", action="append", default=[], metavar="DIR", help="writable in sandboxes")
    add("--data", action="append", default=[], metavar="DIR", help="folders in it are data sets")
    add("--data-every-s", type=_seconds, default=chosen.data_every_s, help="between looks at it")
    add(
        "--sandbox-network",
        choices=("host", "none"),
        default="host",
        help="none: jobs in sandboxes reach nothing; default %(default)s",
    )
    add("--own-python", action="store_true", help="jobs find this agent's Python first on PATH")
    add("--allow-file-git", action="store_true", help="let jobs fetch code from file:// URLs")
    add("--no-control-groups", action="store_true", help="watch memory instead of limiting it")
    add("--network-interface", default="", help="handed to NCCL as NCCL_SOCKET_IFNAME")


def options_of(arguments: argparse.Namespace) -> Options:
    """What was chosen for `run`."""
    state = arguments.state.absolute()
    path_prefix, expose = list(arguments.path_prefix), list(arguments.expose)
    libraries = tuple(str(Path(folder).resolve()) for folder in arguments.library_path)
    if arguments.own_python:
        path_prefix.append(f"{sys.prefix}/bin")
        expose += [sys.prefix, sys.base_prefix]
    chosen = Options(
        state=state,
        work=choose_work_folder(state, arguments.work, is_root=os.geteuid() == 0),
        hold_s=min(arguments.hold_s, 20.0),
        sample_s=arguments.sample_s,
        heartbeat_s=arguments.heartbeat_s,
        retry_cap_s=arguments.retry_cap_s,
        disconnect_grace_s=arguments.disconnect_grace_s,
        keep_work_s=arguments.keep_work_s,
        keep_checkpoints_s=arguments.keep_checkpoints_s,
        spool_cap_mib=arguments.spool_cap_mib,
        min_free_mib=arguments.min_free_mib,
        job_uids=arguments.job_uids or None,
        ports=arguments.ports,
        path_prefix=tuple(path_prefix),
        expose=tuple(expose),
        allow_file_git=arguments.allow_file_git,
        control_groups=not arguments.no_control_groups,
        network_interface=arguments.network_interface,
        isolation=arguments.isolation,
        share=tuple(str(Path(folder).resolve()) for folder in arguments.share),
        data=tuple(str(Path(folder).resolve()) for folder in arguments.data),
        data_every_s=arguments.data_every_s,
        sandbox_network=arguments.sandbox_network == "host",
    )
    return with_libraries(chosen, libraries)


def wish_of(arguments: argparse.Namespace) -> NodeIdentity:
    """What the node would like to be; id, pool and token are the server's to give."""
    return NodeIdentity(
        server=arguments.server,
        node_id=0,
        name=checked_name(arguments.name),
        pool="",
        node_token="",
        simulated_gpus=arguments.simulated_gpus,
        simulated_model=arguments.simulated_model,
        cpus=arguments.cpus,
        memory_mib=arguments.memory_mib,
        address=arguments.address,
    )


def _server(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise argparse.ArgumentTypeError(f"{text!r} is no address such as https://portal:8000")
    return text.rstrip("/")


def _count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of 0 or more")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 10_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return value


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    if not (first.isdigit() and last.isdigit() and 1024 <= int(first) <= int(last)):
        raise argparse.ArgumentTypeError(f"{text!r} is no range such as 61000-64999 from 1024 on")
    return int(first), int(last)


def _uids(text: str) -> tuple[int, int] | tuple[()]:
    return () if text == "same" else _range(text)
