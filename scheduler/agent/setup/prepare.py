"""Everything between acceptance and start: user, folders, code, checkpoint, environment.

1. Pick an unused user id for the attempt and make its folders, with an inline script.
2. Fetch the code as that user.
3. Find the checkpoint to resume from.
4. Put the environment together and write the launch record.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from scheduler.agent.config import Options
from scheduler.agent.news import hint_place
from scheduler.agent.runtime.checkpoints import NOTE_FILE, CheckRequest, Finding
from scheduler.agent.runtime.records import LaunchRecord
from scheduler.agent.runtime.space.memory import remove_memory_folder
from scheduler.agent.setup.boxing import check_places, plan_git, plan_sandbox
from scheduler.agent.setup.code import CodePlace, fetch_code
from scheduler.agent.setup.environment import Places, process_environments, shared_environment
from scheduler.agent.setup.folders import (
    CHECKPOINTS,
    OUTPUTS,
    attempt_folder,
    make_as_user,
    make_kept_folder,
    make_passable,
)
from scheduler.agent.setup.git import GIT_SETTINGS, GitRules
from scheduler.agent.setup.identities import UidBook, give, make_own, name_of, seed_of
from scheduler.agent.setup.patches import clean_patch
from scheduler.agent.setup.private import Fetch, Private, make_private
from scheduler.agent.setup.problems import SetupProblem, SetupStopped
from scheduler.agent.setup.session import session_command, session_environment
from scheduler.wire.messages import Assignment, Launch

_MAX_PROBLEM = 255
Look = Callable[[CheckRequest, Callable[[], bool]], Finding | None]


@dataclass(frozen=True, slots=True)
class Ground:
    """What the agent knows and the assignment does not. `uids` None: jobs are the agent's user.

    `look` looks at checkpoints as a job's user. `sandbox`: where bwrap lies, empty: none is used.
    `secrets` asks the server for values.
    """

    options: Options
    hint_address: str
    last_sync_paths: tuple[Path, Path]
    uids: UidBook | None
    look: Look
    device_files: Callable[[Collection[str]], tuple[str, ...]]
    sandbox: str
    secrets: Fetch
    master_port: int
    is_stopped: Callable[[], bool]


def prepare(assignment: Assignment, ground: Ground) -> LaunchRecord:
    """Make everything ready and say how to launch it.

    Raises SetupProblem for what the user can mend, SetupStopped when a stop order came first,
    OSError and NoFreeUid for what the node's operator must look at.
    """
    options, launch = ground.options, assignment.launch
    uid = None
    if ground.uids is not None:
        seed = seed_of(options.state, assignment.job_id)
        uid = ground.uids.pick(assignment.fence, seed, launch.checkpoint_dir)
    root = _make_root(options.work, assignment, uid)
    # Before the folder is the job's: what git runs there as its user could put links in our way.
    command = launch.command or session_command(launch, root, uid)
    command = command or _script_command(launch.code.script, root, uid)
    give(root, uid)
    rules = GitRules(
        uid,
        root / "work",
        root / "gitconfig",
        options.allow_file_git,
        options.git_timeout_s,
        ground.is_stopped,
        sandbox=plan_git(ground.sandbox, options, root),
    )
    code = fetch_code(launch.code, root / "code", rules)
    checkpoint = _checkpoint_folder(assignment, ground, uid)
    found = _resume_point(assignment, ground, str(checkpoint), uid)
    places = Places(
        work=str(root / "work"),
        scratch=str(root / "scratch"),
        output=str(_kept_folder(OUTPUTS, assignment, ground, uid)),
        checkpoint=str(checkpoint),
        resume_from=found.path,
    )
    env = shared_environment(
        assignment,
        places,
        options,
        master_port=ground.master_port,
        user=name_of(uid),
        network=options.sandbox_network or not ground.sandbox,
    )
    env |= session_environment(launch, root)
    with _private(assignment, ground, uid) as private:
        if private.secrets_dir:
            env["TRAINYARD_SECRETS_DIR"] = private.secrets_dir
        record = _launch_record(assignment, ground, uid, command, places, env, code, found)
        record = replace(record, memory_folder=private.folder, secrets_dir=private.secrets_dir)
        return _boxed(clean_patch(record), assignment, ground, places, root, private)


@contextmanager
def _private(assignment: Assignment, ground: Ground, uid: int | None) -> Iterator[Private]:
    """What it has in memory, given back if the rest of the setup fails."""
    private = make_private(
        assignment,
        agent=ground.hint_address,
        uid=uid,
        in_sandbox=bool(ground.sandbox),
        fetch=ground.secrets,
        is_stopped=ground.is_stopped,
    )
    try:
        yield private
    except BaseException:
        remove_memory_folder(private.folder)
        raise


def _boxed(
    record: LaunchRecord,
    assignment: Assignment,
    ground: Ground,
    places: Places,
    root: Path,
    private: Private,
) -> LaunchRecord:
    """The same launch in a sandbox, if there is to be one; raises SetupProblem."""
    if not ground.sandbox:
        return record
    plan = plan_sandbox(
        ground.sandbox,
        ground.options,
        assignment,
        places,
        root=root,
        devices=ground.device_files(assignment.device_uuids),
        private=private,
    )
    fields = (
        ("code.folder", assignment.launch.code.folder),
        ("working_dir", record.working_dir),
        ("checkpoint_dir", places.checkpoint),
    )
    check_places(plan, fields)
    return replace(record, sandbox=plan)


def _resume_point(assignment: Assignment, ground: Ground, folder: str, uid: int | None) -> Finding:
    """The checkpoint to go on from, read back and found whole; an empty path: start anew.

    The ranks of a gang must agree, so there only what the server has confirmed counts, if it has
    confirmed anything; what else lies in a node's own folder is for the first rank alone.
    """
    is_gang, is_own = len(assignment.addresses) > 1, not assignment.launch.checkpoint_dir
    is_later = assignment.rank > 0 and is_own
    if assignment.resume is None and (is_later or _is_without_note(folder)):
        return Finding()
    request = CheckRequest(folder, uid, "", True, assignment.resume, only_offer=is_gang)
    found = ground.look(request, ground.is_stopped)
    if ground.is_stopped():
        raise SetupStopped
    return found or Finding(problem="the checkpoint could not be read on this node")


def _is_without_note(folder: str) -> bool:
    """Whether there certainly is none: most jobs are new, and looking as their user is a fork."""
    try:
        os.lstat(os.path.join(folder, NOTE_FILE))
    except FileNotFoundError:
        return True
    except OSError:
        pass  # only its user may look there
    return False


def _launch_record(
    assignment: Assignment,
    ground: Ground,
    uid: int | None,
    command: tuple[str, ...],
    places: Places,
    env: dict[str, str],
    code: CodePlace | None,
    found: Finding,
) -> LaunchRecord:
    launch, options = assignment.launch, ground.options
    start_in = Path(code.folder if code else places.work, launch.working_dir)
    return LaunchRecord(
        fence=assignment.fence,
        rank=assignment.rank,
        command=command,
        env=env,
        processes=process_environments(assignment),
        working_dir=str(start_in),
        notice_dir=places.work,
        marker=f"TRAINYARD_SCRATCH_DIR={places.scratch}",
        uid=uid,
        cpus=launch.cpus,
        memory_mib=launch.memory_mib,
        time_limit_s=launch.time_limit_s,
        stop_signal=launch.stop_signal,
        stop_grace_s=launch.stop_grace_s,
        disconnect_grace_s=_disconnect_grace_s(launch, options),
        last_sync_path=str(ground.last_sync_paths[0]),
        last_sync_in_memory=str(ground.last_sync_paths[1]),
        hint_address=str(hint_place(options)),
        # What the server would cut off must not be the tail.
        log_cap_mib=min(options.spool_cap_mib, launch.log_cap_mib or options.spool_cap_mib),
        expose=options.expose if uid is not None else (),
        control_groups=options.control_groups,
        master_port=ground.master_port,
        code_commit=code.commit if code else "",
        code_patch=code.patch if code else "",
        resumed_from=found.path,
        resumed_step=found.step if found.path else None,
        resume_problem=found.problem[:_MAX_PROBLEM],
        checkpoint_seen=found.mark,
    )


def _disconnect_grace_s(launch: Launch, options: Options) -> float:
    """What the job asks for, else the node's own, but no more than the server waits for."""
    if launch.disconnect_grace_s:
        return launch.disconnect_grace_s
    return min(options.disconnect_grace_s, launch.usual_grace_s or options.disconnect_grace_s)


def _make_root(work: Path, assignment: Assignment, uid: int | None) -> Path:
    """The attempt's own folder, still the agent's, with those inside that are the job's."""
    root = attempt_folder(work, assignment.fence, assignment.rank)
    make_passable(root.parent, soon_deleted=True)
    # Everything inside belongs to the job's user; the folder around it keeps others out.
    root.mkdir(mode=0o700)
    for name in ("work", "scratch"):
        make_own(root / name, uid)
    if assignment.launch.code.git_url or assignment.launch.code.folder:
        (root / "gitconfig").write_text(GIT_SETTINGS, encoding="ascii")
        give(root / "gitconfig", uid)
    return root


def _script_command(script: str, root: Path, uid: int | None) -> tuple[str, ...]:
    if not script.strip():
        raise SetupProblem("command: there is neither a command nor a script. Give one of them.")
    path = root / "script"
    text = script.replace("\r\n", "\n")
    path.write_text(text, encoding="utf-8")
    path.chmod(0o500)
    give(path, uid)
    return (str(path),) if text.startswith("#!") else ("/bin/sh", str(path))


def _checkpoint_folder(assignment: Assignment, ground: Ground, uid: int | None) -> Path:
    wish = assignment.launch.checkpoint_dir
    if not wish:
        return _kept_folder(CHECKPOINTS, assignment, ground, uid)
    make_as_user(wish, uid)
    return Path(wish)


def _kept_folder(kind: str, assignment: Assignment, ground: Ground, uid: int | None) -> Path:
    ids = ground.uids.ids if ground.uids is not None else ()
    return make_kept_folder(ground.options.work, kind, assignment.job_id, uid, ids)
