"""The options of sbatch by name: which take a value, which letters stand for them.

After the manual page of sbatch, section OPTIONS. What a job here can say as well has its meaning in
`meaning.py`; of everything else this says why it is left out and what to do instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.spec.slurm.reading import ALWAYS, MAY, NEVER

_PAGE = "output and its errors are kept together as the job's log, and shown on its page"
_CORES = "places and binds nothing below a node; the figures count whole cores"
_CARDS = "cards are set up by the node"
_HERE = "is about sbatch itself and not about the job"
_SITE = "is for the site's administrators"
_NAMED = "no node can be asked for by name; ask for labels of nodes instead: constraints"

# What the options mean that no job here can say: "-" begins what is harmless to leave out.
LEFT_OUT: Final[Mapping[str, tuple[str, str]]] = {
    "output": (ALWAYS, f"-{_PAGE}"),
    "error": (ALWAYS, f"-{_PAGE}"),
    "open-mode": (ALWAYS, f"-{_PAGE}"),
    "input": (ALWAYS, "standard input is empty; read the file inside the script"),
    "nodelist": (ALWAYS, _NAMED),
    "nodefile": (ALWAYS, _NAMED),
    "batch": (ALWAYS, _NAMED),
    "prefer": (ALWAYS, "a preference of node features has no equal; see constraints"),
    "cluster-constraint": (ALWAYS, "there is one cluster"),
    "clusters": (ALWAYS, "there is one cluster"),
    "time-min": (ALWAYS, "the time limit is not shortened to start sooner"),
    "immediate": (MAY, "a job waits until it can start"),
    "delay-boot": (ALWAYS, f"-{_SITE}"),
    "reboot": (NEVER, _SITE),
    "priority": (ALWAYS, "the order follows tier and fair share; choose a tier"),
    "nice": (MAY, "the order follows tier and fair share; choose a tier"),
    "oversubscribe": (NEVER, "cores and memory are never given twice; see share_cards for GPUs"),
    "overcommit": (NEVER, "cores are never given twice"),
    "ntasks-per-core": (ALWAYS, _CORES),
    "ntasks-per-socket": (ALWAYS, _CORES),
    "extra-node-info": (ALWAYS, _CORES),
    "sockets-per-node": (ALWAYS, _CORES),
    "cores-per-socket": (ALWAYS, _CORES),
    "threads-per-core": (ALWAYS, _CORES),
    "core-spec": (ALWAYS, _CORES),
    "thread-spec": (ALWAYS, _CORES),
    "gpus-per-socket": (ALWAYS, _CORES),
    "mincpus": (ALWAYS, "write the CPUs each node needs: cpus"),
    "hint": (ALWAYS, f"-{_CORES}"),
    "distribution": (ALWAYS, f"-{_CORES}"),
    "mem-bind": (ALWAYS, f"-{_CORES}"),
    "cpu-freq": (ALWAYS, f"-{_SITE}"),
    "gpu-bind": (ALWAYS, f"-{_CARDS}"),
    "gpu-freq": (ALWAYS, f"-{_CARDS}"),
    "gres-flags": (ALWAYS, f"-{_CARDS}"),
    "tres-bind": (ALWAYS, f"-{_CARDS}"),
    "tres-per-task": (ALWAYS, "write it as GPUs and CPUs of a node"),
    "profile": (ALWAYS, "-GPU use, memory and power are always recorded, on the job's page"),
    "acctg-freq": (ALWAYS, "-GPU use, memory and power are always recorded, on the job's page"),
    "bb": (ALWAYS, "there are no burst buffers; see scratch"),
    "bbf": (ALWAYS, "there are no burst buffers; see scratch"),
    "container": (ALWAYS, "containers are not started from a script's options"),
    "container-id": (ALWAYS, "containers are not started from a script's options"),
    "contiguous": (NEVER, "nodes have no numbers in a row; ask for one rack: topology"),
    "spread-job": (NEVER, "a job is not spread on purpose; see topology: rack:balanced"),
    "use-min-nodes": (NEVER, "-a range of nodes is filled as the pool allows"),
    "wait-all-nodes": (ALWAYS, "-a job starts on all its nodes at once"),
    "no-kill": (MAY, "the loss of a node ends the attempt; the job goes on from its checkpoint"),
    "kill-on-invalid-dep": (ALWAYS, "-it is always so: what can never start is cancelled"),
    "network": (ALWAYS, "networks are told by labels of nodes, such as network=ib"),
    "segment": (ALWAYS, "see topology: rack or block"),
    "resv-ports": (MAY, "-the port of the first process is chosen for each attempt"),
    "export-file": (ALWAYS, "write the variables as env"),
    "get-user-env": (MAY, "-a job starts with a clean environment; write variables as env"),
    "propagate": (MAY, f"-{_SITE}"),
    "power": (ALWAYS, f"-{_SITE}"),
    "mcs-label": (ALWAYS, _SITE),
    "uid": (ALWAYS, _SITE),
    "gid": (ALWAYS, _SITE),
    "ignore-pbs": (NEVER, f"-{_HERE}"),
    "parsable": (NEVER, f"-{_HERE}"),
    "quiet": (NEVER, f"-{_HERE}"),
    "verbose": (NEVER, f"-{_HERE}"),
    "test-only": (NEVER, f"{_HERE}; use Check, or --dry-run"),
    "wait": (NEVER, f"-{_HERE}; trainyard submit --wait waits"),
    "version": (NEVER, f"-{_HERE}"),
    "help": (NEVER, f"-{_HERE}"),
    "usage": (NEVER, f"-{_HERE}"),
}

# Those with a meaning here, in `meaning.py`.
TAKEN: Final[Mapping[str, str]] = {
    "job-name": ALWAYS, "account": ALWAYS, "partition": ALWAYS, "qos": ALWAYS, "time": ALWAYS,
    "nodes": ALWAYS, "ntasks": ALWAYS, "ntasks-per-node": ALWAYS, "tasks-per-node": ALWAYS,
    "ntasks-per-gpu": ALWAYS, "cpus-per-task": ALWAYS, "cpus-per-gpu": ALWAYS, "gres": ALWAYS,
    "gpus": ALWAYS, "gpus-per-node": ALWAYS, "gpus-per-task": ALWAYS, "mem": ALWAYS,
    "mem-per-cpu": ALWAYS, "mem-per-gpu": ALWAYS, "tmp": ALWAYS, "constraint": ALWAYS,
    "exclude": ALWAYS, "licenses": ALWAYS, "exclusive": MAY, "array": ALWAYS,
    "dependency": ALWAYS, "begin": ALWAYS, "deadline": ALWAYS, "hold": NEVER,
    "requeue": NEVER, "no-requeue": NEVER,
    "chdir": ALWAYS, "export": ALWAYS, "signal": ALWAYS, "reservation": ALWAYS,
    "mail-type": ALWAYS, "mail-user": ALWAYS,
    "comment": ALWAYS, "wckey": ALWAYS, "switches": ALWAYS, "wrap": ALWAYS,
}  # fmt: skip

KNOWN: Final[Mapping[str, str]] = {**TAKEN, **{name: one[0] for name, one in LEFT_OUT.items()}}
SHORT: Final[Mapping[str, str]] = {
    "J": "job-name", "A": "account", "p": "partition", "q": "qos", "t": "time", "N": "nodes",
    "n": "ntasks", "c": "cpus-per-task", "G": "gpus", "C": "constraint", "x": "exclude",
    "w": "nodelist", "F": "nodefile", "L": "licenses", "a": "array", "d": "dependency",
    "b": "begin", "H": "hold", "D": "chdir", "o": "output", "e": "error", "i": "input",
    "s": "oversubscribe", "O": "overcommit", "B": "extra-node-info", "S": "core-spec",
    "m": "distribution", "I": "immediate", "k": "no-kill", "M": "clusters", "Q": "quiet",
    "v": "verbose", "W": "wait", "V": "version", "h": "help",
}  # fmt: skip
