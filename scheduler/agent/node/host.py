"""What this host offers beside its devices, and how busy it is."""

from __future__ import annotations

import platform
import shutil
import socket
import time
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from scheduler.wire.messages import HostFacts
from scheduler.wire.readings import HostSample

_MIB = 1024 * 1024


def read_host(
    work: Path,
    server: str,
    *,
    cpus: int,
    memory_mib: int,
    address: str,
    driver: str,
    isolation: str = "",
) -> HostFacts:
    """The host's facts; `cpus`, `memory_mib` and `address` override what it says itself."""
    return HostFacts(
        cpus=cpus or psutil.cpu_count() or 1,
        memory_mib=memory_mib or psutil.virtual_memory().total // _MIB,
        scratch_mib=shutil.disk_usage(existing(work)).total // _MIB,
        address=address or address_towards(server),
        kernel=platform.release(),
        driver=driver,
        isolation=isolation,
    )


def sample_host(work: Path) -> HostSample:
    """How busy the host is now; processor use is since the last call."""
    memory = psutil.virtual_memory()
    return HostSample(
        at=time.time(),
        cpu_percent=float(psutil.cpu_percent(None)),
        memory_used_mib=(memory.total - memory.available) // _MIB,
        scratch_free_mib=free_mib(work),
    )


def free_mib(folder: Path) -> int:
    """Room left for us on the disk that holds `folder`."""
    return shutil.disk_usage(existing(folder)).free // _MIB


def existing(path: Path) -> Path:
    """`path` or its nearest parent that exists."""
    return next(place for place in (path, *path.parents) if place.exists())


def address_towards(server: str) -> str:
    """The address of ours from which the server is reached: other nodes reach us there too."""
    parts = urlsplit(server)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        found = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, place = found[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(place)  # sends nothing: it only asks the routing table
            return str(probe.getsockname()[0])
    except OSError:
        return "127.0.0.1"
