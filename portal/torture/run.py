"""A run from start to verdict."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from portal.embedded.places import ROOT, Places, StackProblem, free_port
from portal.embedded.postgres import Cluster, NoPostgres
from portal.embedded.programs import python
from portal.torture import aftermath
from portal.torture.faults import FAULTS, Hand
from portal.torture.faults.storm import Storm
from portal.torture.history import Diary, Evidence, read_lines
from portal.torture.people import Crowd, Treasurer, prepare
from portal.torture.program import RESTS_S, make_witness, read_witness
from portal.torture.proxy import Proxies
from portal.torture.restoring import restore
from portal.torture.watching import Watch, rules_of
from portal.torture.yard import Timers, Yard

# So long a run has jobs that rest, which take more than a minute to be warned.
_LONG_MINUTES = 2.0
# Eight times in ten minutes each kind of fault has to hit, who often finds nobody too: on average
# eleven times, less one.
_FULL_MINUTES, _EACH_EVERY_S = 10.0, 54.0


@dataclass(frozen=True, slots=True)
class Choice:
    """What to run. `divide`: the product's timers by this. `kinds` of faults and `jobs`: all when
    empty. `first`: kinds that strike before all others.

    `settle_s`, beyond what the timers take, is how long the last jobs may need afterwards.
    `restores`: at the end the database is put back to an earlier moment. `watch`: invariants that
    are looked at all the time: the run is over with the first break, and only these `kinds` strike.
    Once there were `enough` accepted jobs and faults, the storm is over before its time.
    `sql` is carried out before people come: what a planted bug needs of the database.
    `with_helpers`: there are a worker and a clock beside the schedulers. `joins`: arrays come that
    wait task for task, also where the crowd is small; `repeats`: so do schedules; `groups`: and
    jobs of groups. `pools`: the nodes are dealt to so many, and jobs with them; one is how runs
    were before there were several, which seeds that were kept from then repeat.
    """

    minutes: float = 10.0
    seed: int = 1
    agents: int = 8
    pools: int = 1
    divide: int = 20
    pause_s: float = 0.6
    settle_s: float = 60.0
    restores: bool = False
    watch: Sequence[str] = ()
    with_standby: bool = True
    with_helpers: bool = True
    joins: bool = False
    repeats: bool = False
    groups: bool = False
    enough: tuple[int, int] = (0, 0)
    plant: str = ""
    kinds: Sequence[str] = ()
    first: Sequence[str] = ()
    jobs: Sequence[str] = ()
    sql: Sequence[str] = ()
    history: Path | None = None
    tell: Callable[[str], None] = field(default=lambda _: None)


def run(choice: Choice) -> dict[str, Any]:
    """Everything: start, storm, calm, verdict. The figures are one JSON object.

    Raises StackProblem where it cannot be started here.
    """
    folder = Path(tempfile.mkdtemp(prefix="trainyard-", dir="/tmp"))
    folder.chmod(0o711)
    witness = make_witness(folder / "witness")
    diary = Diary(folder / "history.jsonl")
    began = time.monotonic()
    try:
        with installed(choice, folder) as yard:
            choice.tell(f"{choice.agents} nodes are up after {time.monotonic() - began:.0f} s")
            treasurer = prepare(yard, choice.seed, choice.sql)
            evidence = _storm(yard, choice, diary, witness, treasurer)
            yard.is_given_up = evidence is not None
            if evidence is None:
                evidence = _look(yard, diary, witness, choice)
            return aftermath.figures_of(choice, evidence)
    finally:
        diary.close()
        if choice.history is not None:
            shutil.copy(folder / "history.jsonl", choice.history)
        end_leftovers(folder)
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def installed(choice: Choice, folder: Path) -> Iterator[Yard]:
    """The installation below this folder, running; raises StackProblem without PostgreSQL."""
    try:
        with Cluster(keeps_commits=True) as cluster:
            proxies = Proxies(choice.seed)
            yard = Yard(
                Places(folder / "state", folder / "run"),
                cluster=cluster,
                proxies=proxies,
                timers=Timers(choice.divide),
                agents=choice.agents,
                pools=choice.pools,
                port=free_port() or 0,
                plant=choice.plant,
                with_standby=choice.with_standby,
                with_helpers=choice.with_helpers,
                tell=choice.tell,
            )
            try:
                with yard:
                    yield yard
            finally:
                proxies.close()
    except NoPostgres as problem:
        raise StackProblem(f"PostgreSQL is not installed here. Type '{problem}'.") from None


def _storm(
    yard: Yard, choice: Choice, diary: Diary, witness: Path, treasurer: Treasurer
) -> Evidence | None:
    """Until all is quiet again; what showed a break before, where one is watched for."""
    over = threading.Event()
    proxy = yard.proxies.open(yard.address)
    hand = Hand(yard, random.Random(choice.seed), proxy, over)
    wanted = choice.kinds if choice.watch else choice.kinds or FAULTS
    kinds = [name for name in wanted if _can(name, yard)]
    crowd = Crowd(yard, diary, choice.seed, witness, proxy.address, over)
    crowd.only, crowd.is_whole, crowd.treasurer = choice.jobs, not choice.watch, treasurer
    crowd.joins, crowd.repeats, crowd.groups = choice.joins, choice.repeats, choice.groups
    crowd.is_told, crowd.is_long = choice.with_helpers, choice.minutes >= _LONG_MINUTES
    storm = Storm(hand, diary, kinds, choice.pause_s, first=choice.first, every_s=_every_s(choice))
    watch = Watch(yard, diary, witness, choice.watch)
    crowd.start()
    hand.receivers = crowd.receivers
    storm.start()
    deadline, said = time.monotonic() + choice.minutes * 60, ""
    while (left_s := deadline - time.monotonic()) > 0 and not _is_enough(choice, crowd, storm):
        time.sleep(min(1.0 if choice.watch else 20.0, left_s))
        said = f"{len(crowd.jobs)} jobs accepted, {storm.hits} faults"
        if not choice.watch:
            choice.tell(f"{said}, {max(0.0, left_s):.0f} s to go")
        elif watch.has_seen():
            break
    over.set()
    storm.join()
    hand.heal()
    try:
        if not watch.has_seen():
            choice.tell(f"{said}; the storm is over, waiting for what is on its way")
            _let_all_end(yard, choice, diary, crowd, watch)
        if watch.evidence is None:
            crowd.cancel_the_past()
    finally:
        crowd.close()
        for other in hand.bystanders:
            other.kill()
            other.wait()
    return watch.evidence


def _let_all_end(yard: Yard, choice: Choice, diary: Diary, crowd: Crowd, watch: Watch) -> None:
    """See the crowd off, and wait for what it has sent; notes what is late."""
    patience_s = 2 * yard.timers.lost_after_s + choice.settle_s
    patience_s += RESTS_S if crowd.is_long else 0.0

    def is_enough() -> bool:
        if crowd.is_whole and crowd.is_long:
            crowd.askers.go_on()
        return watch.has_seen()

    with contextlib.ExitStack() as stays:
        if crowd.is_whole and crowd.treasurer is not None:
            # The crowd takes its time to leave, and jobs go on meanwhile.
            stays.enter_context(crowd.treasurer.stay(diary))
        crowd.join()
        if crowd.is_whole:
            stays.enter_context(crowd.listeners.stay())
        late = aftermath.wait_for_the_end(yard.database, patience_s, or_if=is_enough)
    for job, state in late:
        diary.note("overdue", job=job, state=state)


def _every_s(choice: Choice) -> float:
    return _EACH_EVERY_S if choice.minutes >= _FULL_MINUTES else 0.0


def _is_enough(choice: Choice, crowd: Crowd, storm: Storm) -> bool:
    jobs, faults = choice.enough
    return any(choice.enough) and len(crowd.jobs) >= jobs and storm.hits >= faults


def _can(name: str, yard: Yard) -> bool:
    needs = {
        "disk-full": yard.small_node,
        "disk-read-only": yard.small_node,
        "store-full": "store" in yard.small_disks,
        "wal-full": "wal" in yard.small_disks,
    }
    return bool(needs.get(name, True))


def _look(yard: Yard, diary: Diary, witness: Path, choice: Choice) -> Evidence:
    """Read everything once nobody changes it any more."""
    for name in aftermath.locks_still_held(witness / "locks"):
        diary.note("left", what=name)
    tables = aftermath.read_tables(yard.database)
    _note_what_is_shown(yard, diary)
    audit = _call(yard, "-m", "portal.torture.auditing")
    unread = {"events": 0, "seals": 0, "unsealed": 0, "broken": audit.stderr[-500:]}
    diary.note("audit", **(json.loads(audit.stdout) if audit.returncode == 0 else unread))
    done = _call(yard, "-m", "django", "verify_ledger")
    diary.note("verified", ok=done.returncode == 0, words=done.stderr[-500:])
    for fact in read_witness(witness):
        diary.note(**dict(fact))
    pieces = aftermath.read_pieces(yard.places.state / "files", tables["logchunk"])
    if choice.history is not None:
        choice.history.with_suffix(".tables.json").write_text(json.dumps(tables))
        logs = choice.history.with_suffix(".logs")
        shutil.copytree(yard.places.logs, logs, dirs_exist_ok=True)
    for node, proxy in yard.proxy_of.items():
        diary.note("heard", node=node, times=list(proxy.heard))
        sizes = [[*place, size] for place, size in list(proxy.acknowledged.items())]
        diary.note("acknowledged", node=node, sizes=sizes)
    rules = rules_of(yard)
    if choice.restores:
        choice.tell("the database is put back to an earlier moment")
        diary.note("restored", **restore(yard, witness.parent))
    return Evidence(read_lines(diary.path), tables, pieces, rules)


def _call(yard: Yard, *words: str) -> subprocess.CompletedProcess[str]:
    """A program of the installation, with its settings and its clock, to its end."""
    return subprocess.run(
        yard.under(python(*words)),
        cwd=ROOT,
        env=yard.environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def _note_what_is_shown(yard: Yard, diary: Diary) -> None:
    headers = {"Authorization": f"Bearer {yard.api_tokens['alice']}"}
    with httpx.Client(base_url=f"{yard.address}/api/v1", headers=headers, timeout=60) as api:
        after = ""
        while True:
            query = {"limit": "100"} | ({"cursor": after} if after else {})
            page = api.get("/jobs/", params=query).raise_for_status().json()
            for job in page["items"]:
                diary.note("shown", job=job["id"], state=job["state"])
            after = page["next_cursor"]
            if not after:
                diary.note("listed")
                return


def end_leftovers(folder: Path) -> None:
    """Kill what still runs on behalf of a folder that is about to go: jobs outlive their stack."""
    import os

    import psutil

    mark = str(folder)
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            words = " ".join(process.cmdline()) + "\0".join(process.environ().values())
            if mark in words and process.pid != os.getpid():
                process.kill()
