"""Where attempts and jobs have what is their own on a node, and whose it is when they are over.

User ids are used again. A folder that is left to one is open to the next job that gets it, which
may be anybody's: so what is over is the agent's, and no other user passes its top.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Collection, Container
from contextlib import suppress
from pathlib import Path

from scheduler.agent.runtime import kernel
from scheduler.agent.setup.identities import make_own
from scheduler.agent.setup.problems import SetupProblem

ATTEMPTS = "attempts"
# What all attempts of a job on this node share.
OUTPUTS, CHECKPOINTS = "outputs", "checkpoints"
KEPT = (OUTPUTS, CHECKPOINTS)
_LOOK = 'mkdir -p -- "$1" && test -w "$1" -a -x "$1"'
_LOOK_S, _DYING_S = 30.0, 1.0


def attempt_folder(work: Path, fence: int, rank: int) -> Path:
    """Where one attempt's own files lie."""
    return work / ATTEMPTS / f"{fence}-{rank}"


def kept_folder(work: Path, kind: str, job_id: int) -> Path:
    """A job's folder of one of the kinds in `KEPT`."""
    return work / kind / str(job_id)


def report_socket(work: Path) -> Path:
    """Where the agent hears jobs of checkpoints, alone in a folder that is shown to all of them."""
    return work / "reports" / "socket"


def make_kept_folder(
    work: Path, kind: str, job_id: int, uid: int | None, ids: Container[int]
) -> Path:
    """The same, made or given to `uid` with what users of `ids` left in it; raises OSError."""
    folder = kept_folder(work, kind, job_id)
    make_passable(folder.parent)
    make_own(folder, uid, ids)
    return folder


def make_as_user(folder: str, uid: int | None) -> None:
    """Create the user's own folder with the user's own rights, and see that it can be written.

    Raises SetupProblem where it cannot, and OSError where its file system hangs.
    """
    look = subprocess.Popen(
        ["/bin/sh", "-c", _LOOK, "sh", folder],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        user=uid,
        group=uid,
        extra_groups=None if uid is None else [],
    )
    assert look.stderr is not None
    try:
        told = look.communicate(timeout=_LOOK_S)[1].decode("utf-8", "replace").strip()
    except subprocess.TimeoutExpired:
        # It may hang in the kernel, where no signal ends it.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(look.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            look.wait(_DYING_S)
        raise OSError(
            f"checkpoint_dir: the file system of {folder} did not answer within {_LOOK_S:.0f} s"
        ) from None
    finally:
        look.stderr.close()
    if look.returncode != 0:
        raise SetupProblem(
            f"checkpoint_dir: the job's user cannot write to {folder}"
            f"{f' ({told})' if told else ''}. Leave it empty for a folder kept on the node, or "
            "name one that is writable for every user."
        )


def make_passable(folder: Path, *, soon_deleted: bool = False) -> None:
    """A folder that every user can pass and nobody else list.

    It lies apart from its neighbours. Where what is made in it is `soon_deleted`, each of that
    lies apart as well: a search of the whole disk, six times as dear as a place beside the others.
    """
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        kernel.spread_folders(folder.parent)
        folder.mkdir(mode=0o711, exist_ok=True)
        folder.chmod(0o711)
        if soon_deleted:
            kernel.spread_folders(folder)


def take_back(*folders: Path) -> None:
    """Make the tops of these folders the agent's own and closed; raises OSError.

    Their last holder may have opened them to everybody.
    """
    for folder in folders:
        with suppress(FileNotFoundError):
            held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                os.fchown(held, os.geteuid(), os.getegid())
                os.fchmod(held, 0o700)
            finally:
                os.close(held)


def take_back_all(work: Path, attempts: Collection[str], jobs: Collection[str]) -> None:
    """The same for all that an earlier agent left, but for those of these names; raises OSError."""
    for kind, live in ((ATTEMPTS, attempts), *((kind, jobs) for kind in KEPT)):
        if (work / kind).is_dir():
            found = (one for one in os.scandir(work / kind) if one.is_dir(follow_symlinks=False))
            take_back(*(Path(one.path) for one in found if one.name not in live))
