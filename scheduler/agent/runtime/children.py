"""One local process of an attempt: from fork to the user's program."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from scheduler.agent.runtime import kernel
from scheduler.agent.runtime.limits import Limits
from scheduler.agent.runtime.records import LaunchRecord, SandboxPlan
from scheduler.agent.runtime.space import mounts, sandbox
from scheduler.states import EndReason

# Enough for any data loader, few enough that a fork bomb stays inside its own user id.
_MAX_PROCESSES = 16_384
_OOM_SCORE_ADJUST = 500
_AS_USER_S = 2.0
_NODES_FAULT = "the node could not"
# Python ignores the first two for itself, and a supervisor hears or ignores the others.
_RESTORED = tuple(
    int(getattr(signal, f"SIG{name}"))
    for name in ("PIPE", "XFSZ", "TERM", "INT", "HUP", "CHLD", "USR1")
)


class StartProblem(Exception):
    """The program could not be started; the text names the field and what to do.

    `end_reason` tells whether the user can do anything about it.
    """

    def __init__(self, problem: str) -> None:
        is_nodes_fault = problem.startswith(_NODES_FAULT)
        self.end_reason = EndReason.START_FAILED if is_nodes_fault else EndReason.SETUP_FAILED
        super().__init__(problem)


def start_process(
    launch: LaunchRecord, env: Mapping[str, str], output: int, limits: Limits
) -> tuple[int, list[int]]:
    """Fork and execute one local process; returns its pid once the program runs, and what is to
    be closed once it has ended: the reading end of its sandbox's news.

    Raises StartProblem when it could not be executed.
    """
    heard, told = os.pipe()
    news, status = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(heard)
            problem = _become_program(launch, env, output, limits, status)
            os.write(told, problem.encode("utf-8", "replace")[:4096])
        finally:
            os._exit(127)  # whatever went wrong, this copy must never go on as the supervisor
    os.close(told)
    os.close(status)
    try:
        problem = kernel.read_to_end(heard).decode("utf-8", "replace")
    finally:
        os.close(heard)
    is_boxed = launch.sandbox is not None
    if is_boxed and not problem and (trouble := sandbox.wait_for_program(pid, news)):
        problem = f"{_NODES_FAULT} {trouble}"
    if problem or not is_boxed:
        os.close(news)
    if problem:
        os.waitpid(pid, 0)
        raise StartProblem(problem)
    return pid, [news] if is_boxed else []


def exit_code(launch: LaunchRecord, status: int) -> int:
    """How a local process ended, from what `waitpid` says; negative: by this signal."""
    code = os.waitstatus_to_exitcode(status)
    return code if launch.sandbox is None else sandbox.plain_code(code)


def drop_to(uid: int | None) -> None:
    """Become `uid` for good: no groups, no way back. None changes nothing."""
    if uid is None:
        return
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def as_user(uid: int | None, action: Callable[[], object]) -> None:
    """Carry out `action` in a short-lived child that is `uid`: its files are not ours to touch.

    Who is that user, too, could stop it or keep it waiting: it is given up after a while.
    """
    pid = os.fork()
    if pid == 0:
        try:
            drop_to(uid)
            action()
        finally:
            os._exit(0)
    give_up_at = time.monotonic() + _AS_USER_S
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if time.monotonic() > give_up_at:
            os.kill(pid, signal.SIGKILL)
            if time.monotonic() > give_up_at + _AS_USER_S:
                return  # it hangs in the kernel
        time.sleep(0.001)


def _become_program(
    launch: LaunchRecord, env: Mapping[str, str], output: int, limits: Limits, status: int
) -> str:
    """Turn this process into the user's program; returns only to say why that failed.

    `status`: where a sandbox tells its news.
    """
    step = f"{_NODES_FAULT} set limits"
    try:
        os.setsid()
        _restore_signals()
        _wire_streams(output)
        limits.join()
        kernel.set_oom_score(_OOM_SCORE_ADJUST)
        kernel.queue_up()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if launch.uid is not None:
            resource.setrlimit(resource.RLIMIT_NPROC, (_MAX_PROCESSES, _MAX_PROCESSES))
        step = f"{_NODES_FAULT} show the program its folders"
        mounts.expose(launch.expose)
        step = f"{_NODES_FAULT} change the user"
        drop_to(launch.uid)
        kernel.forbid_new_privileges()
        kernel.die_with_parent(signal.SIGKILL)
        os.umask(0o022)
        step = "working_dir"
        os.chdir(launch.working_dir)
        step = "command"
        command = launch.command
        if launch.sandbox is not None:
            command = _boxed(launch, launch.sandbox, env, status)
        os.execvpe(command[0], command, dict(env))  # noqa: S606 - a list of words, no shell
    except OSError as error:
        return explain(step, error, launch, env)
    except StartProblem as problem:
        return str(problem)
    except Exception as error:
        return f"{step}: {error}"


def _boxed(
    launch: LaunchRecord, plan: SandboxPlan, env: Mapping[str, str], status: int
) -> tuple[str, ...]:
    """The command inside a sandbox; raises what starting the program itself would raise."""
    program = launch.command[0]
    found = find_program(program, env.get("PATH", ""), launch.working_dir)
    if found is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    if not sandbox.sees(plan, str(found)):
        raise StartProblem(
            f"command: {found} is not among the folders that this node shows to jobs in a sandbox. "
            "Use a program of the system, bring it with the code, or have its folder exposed."
        )
    _try_out(found)
    os.set_inheritable(status, True)
    return (*sandbox.arguments(plan, launch.working_dir, status), "--", *launch.command)


def _try_out(program: Path) -> None:
    """Raise the OSError that executing `program` would; only the kernel knows for certain."""
    if not os.access(program, os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    try:
        with open(program, "rb") as source:
            first = source.read(256).splitlines()[:1]
    except PermissionError:
        return  # it may be executed without being readable
    line = first[0] if first else b""
    if line.startswith(b"#!"):
        os.stat(line[2:].split()[0] if line[2:].split() else b"")
    elif not line.startswith(b"\x7fELF"):
        raise OSError(errno.ENOEXEC, os.strerror(errno.ENOEXEC))


def _restore_signals() -> None:
    signal.set_wakeup_fd(-1)
    kernel.restore_signals(_RESTORED)


def _wire_streams(output: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)


def explain(step: str, error: OSError, launch: LaunchRecord, env: Mapping[str, str]) -> str:
    """Say which field is at fault and what would help, for a start that failed with `error`."""
    if step == "working_dir":
        return (
            f"working_dir: cannot enter {launch.working_dir} as the job's user: "
            f"{error.strerror}.{_closed_folder(Path(launch.working_dir), launch.uid)} "
            "Give a folder that exists on the node and that other users may enter."
        )
    if step != "command":
        return f"{step}: {error}"
    program = launch.command[0]
    found = find_program(program, env.get("PATH", ""), launch.working_dir)
    if error.errno == errno.ENOENT and found is None:
        return f"command not found: {program}. Install it on the node or give its full path."
    if error.errno == errno.ENOENT:
        return f"command: {found} names an interpreter in its first line that does not exist."
    if error.errno == errno.ENOEXEC:
        return f"command: {found or program} is no program; give it a first line such as #!/bin/sh."
    closed = _closed_folder(found or Path(program), launch.uid)
    return (
        f"command: {found or program} may not be executed by the job's user"
        f" ({error.strerror}).{closed} Make it executable for everybody or use another program."
    )


def find_program(program: str, search_path: str, working_dir: str) -> Path | None:
    """Where `execvp` would look, permissions aside; None when there is no such file."""
    if "/" in program:
        places = [Path(working_dir, program)]
    else:
        places = [Path(folder, program) for folder in search_path.split(":") if folder]
    for place in places:
        with suppress(OSError):
            if stat.S_ISREG(place.stat().st_mode):
                return place
    # The job's user cannot look behind a closed folder, so a link there counts as found.
    return next((place for place in places if os.path.islink(place)), None)


def _closed_folder(path: Path, uid: int | None) -> str:
    """The first folder on the way to `path` that other users cannot enter, as a sentence."""
    if uid is None:
        return ""
    with suppress(OSError):
        for start in (path, path.resolve()):
            for folder in reversed(start.parents):
                if not _may_enter(folder, uid):
                    return f" Folder {folder} is closed to other users; the job is uid {uid}."
    return ""


def _may_enter(folder: Path, uid: int) -> bool:
    try:
        status = folder.stat()
    except PermissionError:
        return True  # not to be seen from here: a folder further up is the closed one
    bit = stat.S_IXUSR if status.st_uid == uid else stat.S_IXOTH
    return bool(status.st_mode & bit)
