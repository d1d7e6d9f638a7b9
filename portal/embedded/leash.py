"""Run a program that dies with its parent: `python -I -S leash.py PARENT_PID PROGRAM ARGUMENT...`

Without it a `kill -9` of the launcher would leave the broker and the servers behind as orphans.
A script of its own and stdlib only: it must be cheap, and it is gone once the program runs.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask the kernel for SIGTERM at the parent's death, then become the program."""
    parent, program = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    # The parent may have died before the line above: then it is process 1, as which a container's
    # first program lives. 0: the parent is not known beforehand.
    if os.getppid() != parent if parent else os.getppid() == 1:
        sys.exit("the parent is gone")
    os.execvp(program[0], program)  # noqa: S606 - a list of words, no shell


if __name__ == "__main__":
    main()
