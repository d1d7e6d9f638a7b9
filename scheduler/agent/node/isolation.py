"""How jobs are kept apart on this node: what the operator wants, and what the kernel lets us do."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass

from scheduler.agent.config import ConfigProblem, Options
from scheduler.agent.runtime.records import SandboxPlan
from scheduler.agent.runtime.space import sandbox
from scheduler.states import Isolation

_PROBE_S = 20.0
_SHOWN = 300
_INSTALL = "Install the package `bubblewrap`, or choose another --isolation."


@dataclass(frozen=True, slots=True)
class Keeping:
    """What jobs get. `program` is where bwrap lies, empty without sandboxes."""

    level: Isolation
    program: str = ""


def settle_isolation(options: Options) -> Keeping:
    """The isolation jobs get here; raises ConfigProblem where the wanted one cannot be had, OSError
    where it could not be tried.

    Nothing wished for: an own user for root's jobs, none otherwise, as ever.
    """
    separates = os.geteuid() == 0 and options.job_uids is not None
    wish = options.isolation or (Isolation.USER if separates else Isolation.NONE)
    if wish == Isolation.USER and not separates:
        raise ConfigProblem(
            "--isolation user needs an agent started as root and a range in --job-uids"
        )
    if wish != Isolation.SANDBOX:
        return Keeping(wish)
    if os.geteuid() == 0 and not separates:
        raise ConfigProblem("--isolation sandbox for root needs a range in --job-uids, not `same`")
    program = shutil.which("bwrap")
    if program is None:
        raise ConfigProblem(f"--isolation sandbox: there is no bwrap on this node. {_INSTALL}")
    uid = options.job_uids[0] if separates and options.job_uids else None
    problem = try_sandbox(program, uid)
    if problem:
        raise ConfigProblem(
            f"--isolation sandbox does not work on this node: {problem}. {remedy(problem)}"
        )
    return Keeping(wish, program)


def try_sandbox(program: str, uid: int | None) -> str:
    """Run something in a sandbox as `uid`; says what a person has to mend, else empty.

    Raises OSError for what may pass: no memory or processes left, or a machine too busy.
    """
    with tempfile.TemporaryDirectory(prefix="trainyard-probe-") as folder:
        os.chmod(folder, 0o755)  # noqa: S103 (empty, and another user must reach it)
        plan = SandboxPlan(program, (), folder)
        command = sandbox.arguments(plan, "/", 1)
        for options in (command, [*command, "--unshare-net"]):
            try:
                done = subprocess.run(
                    [*options, "--", "/bin/true"],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=_PROBE_S,
                    check=False,
                    cwd="/",
                    user=uid,
                    group=uid,
                    extra_groups=None if uid is None else [],
                )
            except (PermissionError, FileNotFoundError) as error:
                return str(error)
            except subprocess.TimeoutExpired as error:
                raise TimeoutError(f"the trial of a sandbox: {error}") from None
            if done.returncode != 0:
                said = done.stderr.decode("utf-8", "replace").strip()
                return said[:_SHOWN] or f"bwrap ended with {done.returncode}"
    return ""


def remedy(problem: str) -> str:
    """What an operator can do about what bwrap said."""
    if "proc" in problem:
        return "In a container, give it an unmasked /proc, or choose another --isolation."
    if "ermission" in problem or "not permitted" in problem or "ser namespace" in problem:
        return (
            "Let users make namespaces (sysctl user.max_user_namespaces above 0, and "
            "kernel.unprivileged_userns_clone=1 or an AppArmor profile for bwrap where there is "
            "one), or choose another --isolation."
        )
    return "Run bwrap by hand to see more, or choose another --isolation."
