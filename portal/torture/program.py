"""The programs that the harness runs, and what they write down themselves, outside the product."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scheduler.invariants.rows import Row

PROJECT, POOL = "vision/digits", "default"
# Of the same team; one pool is closed to it.
OTHER_PROJECT = "vision/segmentation"
GPUS_PER_NODE = 4
TIME_LIMIT_S = 300
STOP_GRACE_S = 2
# The rule of schedules; how often that is here, and how late is on time (`under.py`).
EVERY_TIME, DUE_EVERY_S, ON_TIME_S = "* * * * *", 15, 5
NEEDLE = "torture-needle-5d7f0c"

# Locks are the kernel's word for who is alive: they need no clock, and a process that was left
# behind holds them on. Files and not the product's API: whoever runs the job again may be another
# user, on another "node".
_PREAMBLE = """umask 0
W={witness} J=$TRAINYARD_JOB_ID F=$TRAINYARD_FENCE R=$TRAINYARD_NODE_RANK n=0
say() {{ _at=$(date +%s%N)
echo "$1 $J $TRAINYARD_ATTEMPT $F $R ${{_at:-0}} $2" >> "$W/said/$F-$R"; }}
line() {{ n=$((n+1)); echo "L $J $F $R $n"; }}
end() {{ say lines $n; say exit $1; exit $1; }}
exec 9>>"$W/locks/job-$J-$R"; flock -n 9 || say clash "job-$J-$R"
d=5; for g in $(echo "$CUDA_VISIBLE_DEVICES" | tr , ' '); do
eval "exec $d>>\\"$W/locks/gpu-$g\\""; flock -n $d || say clash "gpu-$g"; d=$((d+1)); done
say start
"""
_GENTLE = "trap 'end 143' TERM\n"
_LINES = "while [ $n -lt {count} ]; do line; sleep {pause}; done; "
_CHECKPOINTS = """step=0; C=$TRAINYARD_CHECKPOINT_DIR
if [ -n "$TRAINYARD_RESUME_FROM" ]; then read step < "$TRAINYARD_RESUME_FROM"; say resumed $step; fi
while [ $step -lt {count} ]; do step=$((step+1)); line; echo $step > $C/s-$step
b=$(wc -c < $C/s-$step) h=$(sha256sum < $C/s-$step | cut -c1-64)
printf '{{"path":"s-%s","step":%s,"bytes":%s,"digest":"sha256:%s"}}' $step $step $b $h > $C/.n
mv $C/.n $C/checkpoint.json; sleep 0.5; done; end 0
"""
# As it is, and as programs dump it.
_SECRETS = """echo "S $API_TOKEN"; printf 'to %s' "$API_TOKEN" | base64
printf %s "$API_TOKEN" | od -An -v -tx1 | tr -d ' \\n'; echo
"""
_LEAKS = """[ $((J % 2)) -eq 0 ] && end 0
echo "RuntimeError: the service refused token $API_TOKEN"; end 3
"""
_RULED = """line; case $(((J + TRAINYARD_ATTEMPT) % 7)) in
0) end 0;; 1) end 64;; 2) end 3;; *) end 75;; esac
"""
# Of two arrays, task for task: one of the first fails in the end.
BEFORE = _GENTLE + _LINES + "[ $((J % 4)) -eq 3 ] && end 3; end 0"
_RESTS = _GENTLE + "line; sleep 110 & wait; end 0"
# Long enough to be warned and paused twice, where clocks were put forward meanwhile too.
RESTS_S = 240.0
# kind: how often, what it does after the preamble
_KINDS: dict[str, tuple[int, str]] = {
    "short": (10, _GENTLE + _LINES + "end 0"),
    "long": (2, _GENTLE + _LINES + "end 0"),
    "lasting": (1, _GENTLE + _LINES + "end 0"),
    "gang": (3, _GENTLE + _LINES + "end 0"),
    "array": (2, _GENTLE + _LINES + "end 0"),
    "failing": (3, _GENTLE + "line; [ $TRAINYARD_ATTEMPT -ge 2 ] && end 0; end 3"),
    "saving": (2, _GENTLE + _CHECKPOINTS),
    # Every second one fails with it in its last line.
    "secret": (2, _GENTLE + _SECRETS + _LINES + _LEAKS),
    # Its rules wait and try again, stop, or leave it to the number of its retries.
    "ruled": (4, _GENTLE + _RULED),
    # It has to be done by a moment: in time, too late, or beyond it.
    "timed": (4, _GENTLE + _LINES + "end 0"),
}
RETRY_RULES = ["exit=75:2:wait=1s..2s", "exit=64:stop"]
# The folder above that holds the agent's own files is found by the spool in it.
_INTRUDE = """d=$(dirname "$TRAINYARD_NOTICE_FILE")
while [ "$d" != / ] && ! [ -e "$d/spool" ]; do d=$(dirname "$d"); done
for f in "$d/node.json" "$d/last_sync" "$d/boot-id" "$d/spool/new" "$d/spool/$F/exit.json" \\
"$d/spool/$F/stop.json" "$d/spool/$F/log"; do (echo x >> "$f") 2>/dev/null && say trespass "$f"
done; rm -rf "$d/spool/$F" 2>/dev/null && say trespass removed
(cat "$d/node.json" >/dev/null) 2>/dev/null && say trespass read
kill -9 $PPID 2>/dev/null && say trespass guard
"""
# Fault 16: what a program may do to the node.
HOSTILE: dict[str, str] = {
    "deaf": "trap '' TERM\n" + _LINES + "end 0",
    "daemon": "line; (setsid sh -c 'trap \"\" TERM; sleep 300' &) ; line; sleep 0.3; end 0",
    "forks": "line; i=0; while [ $i -lt 300 ]; do (sleep 300 &) ; i=$((i+1)); done; line; end 0",
    # Three times what a log may hold in this installation.
    "noisy": "line; head -c 3000000 /dev/zero | tr '\\0' x; echo; line; end 0",
    "silent": "line; say lines $n; exec >&- 2>&-; sleep 0.5; say exit 0; exit 0",
    # As fast as it can, for some seconds.
    "flood": "line; (timeout 3 cat /dev/zero | tr '\\0' x); echo; line; end 0",
    # Twice forked, in a session of its own, deaf, with none of the streams and in no folder.
    "detached": 'line; (setsid sh -c \'(cd /; trap "" HUP INT TERM; exec </dev/null >&- 2>&-; '
    "while :; do sleep 1; done) & exit' &) ; sleep 0.5; line; end 0",
    # Each makes two of itself, until the node says no.
    "bomb": "line; bomb() {{ bomb | bomb & }}; bomb; sleep 20; line; end 0",
    # It looks for its node's own files, writes into them, and shoots at its guard.
    "trespasser": _INTRUDE + "line; end 0",
}
# What answers behind a session's tunnel: whose it is. Single quotes and braces would end it.
_PAGE = """import os, socket
from http.server import BaseHTTPRequestHandler, HTTPServer
class Server(HTTPServer):
    address_family = socket.AF_UNIX
    def server_bind(self):
        self.socket.bind(os.environ["TRAINYARD_SESSION_SOCKET"])
        self.server_name, self.server_port = "app", 0
class Page(BaseHTTPRequestHandler):
    def log_message(self, *words): pass
    def do_GET(self):
        body = os.environ["TRAINYARD_JOB_ID"].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        if self.path.endswith("quit"): os._exit(0)
Server(None, Page).serve_forever()
"""
_SESSION = f"python3 -c '{_PAGE}' & p=$!; trap 'kill $p; end 143' TERM; line; wait $p; end $?"
SESSIONS = ("shell", "command")
SESSION_IDLE_S = 10
# These need what not every machine has: a user of its own for each attempt, control groups.
NEED_USERS, NEED_GROUPS = frozenset({"trespasser"}), frozenset({"bomb"})


def make_witness(folder: Path) -> Path:
    """Open to the users that jobs run as."""
    for name in ("said", "locks"):
        (folder / name).mkdir(parents=True)
        (folder / name).chmod(0o777)
    return folder


def draw_job(
    dice: random.Random,
    witness: Path,
    name: str,
    *,
    longest_s: float,
    only: Sequence[str] = (),
    ahead_s: float = 0.0,
) -> dict[str, Any]:
    """The next job of the workload, as its document; of these kinds alone where some are named.

    `ahead_s`: how far the installation's clocks are ahead of ours.
    """
    kinds = list(only) or list(_KINDS)
    weights = [_KINDS[each][0] if each in _KINDS else 1 for each in kinds]
    kind = dice.choices(kinds, weights)[0]
    body = _KINDS[kind][1] if kind in _KINDS else HOSTILE[kind]
    sent = document(kind, body, dice, witness, name, longest_s)
    return sent | timed(dice, ahead_s) if kind == "timed" else sent


def timed(dice: random.Random, ahead_s: float) -> dict[str, Any]:
    """The moment by which a job has to be done, and what follows; some cannot be done by then."""
    at = time.time() + ahead_s
    if dice.random() < 0.3:
        return {"finish_by": _moment(at + dice.uniform(2.0, 6.0)), "finish_by_policy": "keep"}
    late = {"finish_by": _moment(at + dice.uniform(12.0, 30.0)), "finish_by_policy": "cancel"}
    return late | {"time_limit": dice.choice((8, 10))}


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


def joined_jobs(
    dice: random.Random, witness: Path, names: tuple[str, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two arrays of four tasks; the second is to wait for the first, by that one's number."""
    first = document("short", BEFORE, dice, witness, names[0], 3.0)
    second = document("short", _KINDS["short"][1], dice, witness, names[1], 3.0)
    return first | {"array": "0-3"}, second | {"array": "0-3"}


def grouped_job(dice: random.Random, witness: Path, name: str) -> dict[str, Any]:
    """A job of one of two groups, now and then an array; some have a highest price."""
    kind = dice.choice(("short", "long", "long"))
    sent = document(kind, _KINDS[kind][1], dice, witness, name, 8.0)
    sent |= {"group": dice.choice(("push", "night"))}
    sent |= {"group_policy": dice.choice(("wait", "wait", "stop", "stop", "beside"))}
    if dice.random() < 0.2:
        sent |= {"array": "0-1"}
    if dice.random() < 0.3:
        # The least that any job may have at the usual price of the demonstration is below.
        sent |= {"max_cost": dice.choice(("0.5", "2"))}
    return sent


def resting_job(dice: random.Random, witness: Path, name: str) -> dict[str, Any]:
    """A job that holds a GPU, does nothing and writes nothing for two minutes."""
    return document("rests", _RESTS, dice, witness, name, 3.0)


def gentle_lines() -> str:
    """What a program does that prints lines for a while, and ends when it is told."""
    return _KINDS["lasting"][1]


def hostile_job(kind: str, dice: random.Random, witness: Path, name: str) -> dict[str, Any]:
    """A job that behaves badly."""
    return document(kind, HOSTILE[kind], dice, witness, name, 5.0)


def session_job(app: str, dice: random.Random, witness: Path, name: str) -> dict[str, Any]:
    """An interactive session: the node's own shell, or a page of a program's own.

    The shell writes nothing down outside. Python needs more memory than the other programs have.
    """
    sent = document("session", _SESSION, dice, witness, name, 5.0)
    sent |= {"gpus_per_node": 0, "memory": "128MiB"}
    sent["session"] = {"app": app, "idle_stop": f"{SESSION_IDLE_S}s"}
    if app != "command":
        del sent["script"]
    return sent


def document(
    kind: str, body: str, dice: random.Random, witness: Path, name: str, longest_s: float
) -> dict[str, Any]:
    """A job of a kind; lengths and sizes by the dice."""
    seconds = dice.uniform(0.3, 2.0)
    if kind in ("long", "saving", "timed"):
        # Half of them are soon over, so that many come.
        seconds = dice.uniform(2.0, dice.choice((min(6.0, longest_s), longest_s)))
    elif kind == "lasting":
        # Long enough to see a second one begin, on a busy machine too.
        seconds = 2.5 * longest_s
    count = max(2, int(seconds / 0.4))
    script = _PREAMBLE.format(witness=witness)
    script += body.format(count=count, pause=round(seconds / count, 2)) + "\n"
    shape: dict[str, Any] = {"gpus_per_node": dice.choice((1, 1, 1, 2))}
    if kind == "gang":
        shape = {"nodes": dice.choice((2, 3)), "gpus_per_node": 1}
    elif kind == "array":
        shape |= {"array": "0-5%3"}
    elif kind == "failing":
        shape |= {"retries": 2}
    elif kind == "ruled":
        shape |= {"retries": 1, "retry_rules": RETRY_RULES}
    elif kind == "forks":
        # So that it is not its memory that ends it.
        shape |= {"memory": "512MiB"}
    elif kind == "bomb":
        # Its memory or its processes, whichever comes first.
        shape |= {"memory": "64MiB"}
    elif kind == "secret":
        shape |= {"env": {"API_TOKEN": NEEDLE}}
    return {
        "name": name,
        "project": PROJECT,
        "pool": POOL,
        "memory": "16MiB",
        "time_limit": TIME_LIMIT_S,
        "stop": {"grace": f"{STOP_GRACE_S}s"},
        "script": script,
        **shape,
    }


def read_witness(folder: Path) -> list[Row]:
    """What programs wrote down.

    A moment of 0: whoever was to tell the time was killed first; then it is that of the last word.
    """
    facts: list[Row] = []
    for path in sorted((folder / "said").iterdir()):
        last_at = path.stat().st_mtime
        for text in path.read_text(encoding="ascii").splitlines():
            facts.append(_fact(text, last_at))
    return facts


def _fact(text: str, last_at: float) -> Row:
    kind, job, attempt, fence, rank, at_ns, *rest = text.split()
    fact: dict[str, Any] = {
        "kind": kind,
        "at": int(at_ns) / 1e9 or last_at,
        "job": int(job),
        "attempt": int(attempt),
        "fence": int(fence),
        "rank": int(rank),
    }
    if kind == "exit":
        fact["code"] = int(rest[0])
    elif kind == "lines":
        fact["count"] = int(rest[0])
    elif kind in ("clash", "trespass"):
        fact["what"] = rest[0]
    elif kind == "resumed":
        fact["step"] = int(rest[0])
    return fact
