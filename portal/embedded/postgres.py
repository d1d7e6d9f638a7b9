"""A throw-away PostgreSQL cluster from Debian's binaries, on a Unix socket in a temporary folder.

PostgreSQL refuses to run as root: then it runs as `postgres` or `nobody`, in a folder of its own.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from portal.embedded.places import StackProblem


class NoPostgres(Exception):
    """The binaries are missing; the text is the command that adds them."""


def find_binaries() -> Path:
    """The folder with `initdb`; the newest version wins."""
    found = [Path(path).parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    on_path = shutil.which("initdb")
    if on_path:
        found.append(Path(on_path).resolve().parent)
    if not found:
        raise NoPostgres("sudo apt-get install postgresql")
    return max(found, key=lambda path: [int(n) for n in re.findall(r"\d+", str(path))])


class Cluster:
    """A cluster for the length of a `with` block. Nothing in it is worth keeping afterwards.

    `keeps_commits`: what was committed survives a crash of its processes, as it would where people
    work; without it, what is faster is lost.
    """

    def __init__(self, *, keeps_commits: bool = False) -> None:
        self._commit = "on" if keeps_commits else "off"
        self._binaries = find_binaries()
        self._user = _unprivileged()
        self.folder = Path(tempfile.mkdtemp(prefix="trainyard-pg-", dir="/tmp"))

    def __enter__(self) -> Cluster:
        try:
            self._begin()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _begin(self) -> None:
        self.folder.chmod(0o700)
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        self._run(
            "initdb", "-D", self._data, "-U", "trainyard", "--auth=trust", "--encoding=UTF8",
            "--locale=C.UTF-8", "--no-sync",
        )  # fmt: skip
        self.start()

    def _end(self) -> None:
        try:
            # It may have died by itself, or never have lived.
            with contextlib.suppress(RuntimeError):
                self.crash()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        """Let the server run; after a crash it recovers first."""
        options = (
            f"-k {self.folder} -c listen_addresses= -c fsync=off "
            f"-c synchronous_commit={self._commit} "
            "-c full_page_writes=off -c max_connections=200 -c shared_buffers=64MB"
        )
        log = f"{self.folder}/log"
        self._run("pg_ctl", "-D", self._data, "-o", options, "-l", log, "-w", "start")

    def crash(self) -> None:
        """End all its processes at once, without a checkpoint."""
        self._run("pg_ctl", "-D", self._data, "-m", "immediate", "-w", "stop")

    def move_log(self, make_room: Callable[[Path], bool]) -> Path | None:
        """Put the write-ahead log into a folder of its own, which `make_room` may mount first.

        None, and nothing changed, where that says no. The log is then kept below what fits.
        """
        place, log = self.folder / "wal", Path(self._data, "pg_wal")
        place.mkdir(mode=0o700)
        if not make_room(place):
            return None
        for setting in ("max_wal_size = '64MB'", "min_wal_size = '32MB'"):
            self._configure(setting)
        self._run("pg_ctl", "-D", self._data, "-m", "fast", "-w", "stop")
        shutil.copytree(log, place, dirs_exist_ok=True)
        shutil.rmtree(log)
        log.symlink_to(place)
        if self._user is not None:
            for path in (place, *place.rglob("*"), log):
                os.chown(path, self._user.pw_uid, self._user.pw_gid, follow_symlinks=False)
        place.chmod(0o700)
        self.start()
        return place

    def _configure(self, setting: str) -> None:
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as line:
            line.execute(f"ALTER SYSTEM SET {setting}")

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def url(self, database: str = "postgres") -> str:
        """As DATABASE_URL wants it."""
        return f"postgres://trainyard@{quote(str(self.folder), safe='')}/{database}"

    def create_database(self, name: str) -> str:
        """A new empty database; its address."""
        return create_database(self.url(), name)

    def _run(self, program: str, *arguments: str) -> None:
        user = self._user
        result = subprocess.run(
            [self._binaries / program, *arguments],
            cwd=self.folder,
            user=user.pw_uid if user else None,
            group=user.pw_gid if user else None,
            extra_groups=[] if user else None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if result.returncode != 0:
            raise RuntimeError(f"{program}: {result.stderr.strip()[-1000:]}")


@contextlib.contextmanager
def throw_away(kind: str, *, keeps_commits: bool = False) -> Iterator[str]:
    """The address of a new PostgreSQL for `postgres`, empty for `sqlite`: that is a file.

    Raises StackProblem where PostgreSQL is not installed.
    """
    if kind == "sqlite":
        yield ""
        return
    try:
        with Cluster(keeps_commits=keeps_commits) as cluster:
            yield cluster.url()
    except NoPostgres as problem:
        raise StackProblem(f"PostgreSQL is not installed here. Type '{problem}'.") from None


def create_database(server_url: str, name: str, like: str = "template1") -> str:
    """A new database beside the one that `server_url` names, empty or a copy of `like`, which
    nobody may use meanwhile; its address."""
    import psycopg

    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{like}"')
    return f"{server_url.rpartition('/')[0]}/{name}"


def _unprivileged() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    return names.get("postgres") or names["nobody"]
