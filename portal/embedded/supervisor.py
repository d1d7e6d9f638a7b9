"""The only door to supervisord: writes its configuration, starts it, talks to it."""

from __future__ import annotations

import contextlib
import http.client
import os
import shlex
import subprocess
import time
import xmlrpc.client
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from supervisor.xmlrpc import SupervisorTransport

from portal.embedded.earlier import configuration_of
from portal.embedded.places import ROOT, Places, StackProblem
from portal.embedded.programs import WEB, Program, leashed, python

# What supervisord calls a program that it still has to stop.
_UP = ("STARTING", "RUNNING", "BACKOFF", "STOPPING")


class Supervisor:
    """A supervisord of one stack. It dies with the process that made it, and all programs too."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self._programs: Sequence[Program] = ()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, programs: Sequence[Program], environment: Mapping[str, str]) -> None:
        """Begin with no program running. Raises StackProblem when supervisord cannot start."""
        self._programs = programs
        path = configuration_of(self.places)
        path.write_text(configuration(self.places, programs), encoding="utf-8")
        self.places.supervisor_socket.unlink(missing_ok=True)
        with (self.places.logs / "supervisord.out").open("wb") as output:
            self._process = subprocess.Popen(
                leashed(python("-m", "supervisor.supervisord", "-n", "-c", str(path)), os.getpid()),
                cwd=ROOT,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Ctrl-C is for `up`, which stops the programs in order.
                start_new_session=True,
            )
        deadline = time.monotonic() + 20
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise StackProblem(f"supervisord did not start; see {output.name}")
            time.sleep(0.05)

    @property
    def is_alive(self) -> bool:
        """Whether supervisord runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of supervisord itself."""
        assert self._process is not None
        return self._process.pid

    def start_program(self, name: str) -> None:
        """Start it; supervisord keeps it up from now on. Raises StackProblem."""
        self._ask("startProcess", name, False)

    def stop_program(self, name: str) -> None:
        """Stop it and keep it down; returns when it is gone."""
        self._call("stopProcess", name, True)

    def pid_of(self, name: str) -> int:
        """Process id, 0 while it is down."""
        return int(self._call("getProcessInfo", name)["pid"])

    def fatal(self) -> list[str]:
        """Programs that supervisord gave up on. Raises StackProblem."""
        return [name for name, state in self.states().items() if state == "FATAL"]

    def states(self) -> dict[str, str]:
        """What supervisord calls the state of each program. Raises StackProblem."""
        return {each["name"]: each["statename"] for each in self._ask("getAllProcessInfo")}

    def kill(self) -> None:
        """End supervisord at once, and with it all that it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Stop what calls the web server, then that, then the broker; at last supervisord."""
        if self._process is None:
            return
        # Programs of ours that do not stop this way are stopped by supervisord on its own way out.
        with contextlib.suppress(OSError, xmlrpc.client.Error):
            web = {each.name: each.priority for each in self._programs}.get(WEB, 0)
            self._stop_together([each for each in self._programs if each.priority > web])
            self._stop_together([each for each in self._programs if each.priority == web])
            self._stop_together([each for each in self._programs if each.priority < web])
        self._process.terminate()
        try:
            self._process.wait(timeout=90)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _stop_together(self, programs: Sequence[Program]) -> None:
        """Ask all of these to stop, then wait; supervisord alone stops one after the other, each
        in a round of up to a second.
        """
        deadline = time.monotonic() + max((each.stop_wait_s for each in programs), default=0) + 5
        asked = left = self._up(programs)
        for name in asked:
            with contextlib.suppress(xmlrpc.client.Fault):  # It has ended by itself.
                self._call("stopProcess", name, False)
        while left and time.monotonic() < deadline:
            time.sleep(0.05)
            left = self._up(programs)

    def _up(self, programs: Sequence[Program]) -> list[str]:
        known = {each["name"]: each["statename"] for each in self._call("getAllProcessInfo")}
        return [each.name for each in programs if known.get(each.name) in _UP]

    def _answers(self) -> bool:
        try:
            self._call("getState")
        except (OSError, xmlrpc.client.Error):
            return False
        return True

    def _ask(self, method: str, *arguments: Any) -> Any:
        try:
            return self._call(method, *arguments)
        except (OSError, http.client.HTTPException, xmlrpc.client.Error) as problem:
            raise StackProblem(
                f"supervisord does not do what it is asked ({method}: {problem}); see "
                f"{self.places.logs / 'supervisord.log'}"
            ) from None

    def _call(self, method: str, *arguments: Any) -> Any:
        address = f"unix://{self.places.supervisor_socket}"
        proxy = xmlrpc.client.ServerProxy(
            "http://127.0.0.1", transport=SupervisorTransport(None, None, address)
        )
        return getattr(proxy.supervisor, method)(*arguments)


def configuration(places: Places, programs: Sequence[Program]) -> str:
    """The text of supervisord.conf: one socket, no network, a rotating log per program."""
    user = "user=root\n" if os.geteuid() == 0 else ""
    head = f"""\
[supervisord]
nodaemon=true
silent=true
{user}directory={_plain(ROOT)}
logfile={_plain(places.logs / "supervisord.log")}
logfile_maxbytes=5MB
logfile_backups=1
pidfile={_plain(places.run / "supervisord.pid")}
childlogdir={_plain(places.logs)}
umask=077

[unix_http_server]
file={_plain(places.supervisor_socket)}
chmod=0700

[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface
"""
    return head + "".join(_section(places, program) for program in programs)


def _section(places: Places, program: Program) -> str:
    command = leashed(program.command)
    group = "true" if program.stops_group else "false"
    return f"""
[program:{program.name}]
command={_plain(shlex.join(command))}
directory={_plain(ROOT)}
priority={program.priority}
autostart=false
autorestart=true
startsecs=2
startretries=20
stopsignal=TERM
stopwaitsecs={program.stop_wait_s}
stopasgroup={group}
killasgroup={group}
umask={program.umask:03o}
redirect_stderr=true
stdout_logfile={_plain(places.logs / program.name)}.log
stdout_logfile_maxbytes=10MB
stdout_logfile_backups=3
"""


def _plain(value: str | Path) -> str:
    """As supervisord reads it: a percent sign begins an expansion there."""
    return str(value).replace("%", "%%")
