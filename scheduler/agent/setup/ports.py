"""A free port for rank 0, held until its program starts."""

from __future__ import annotations

import errno
import random
import socket

_TRIES = 200


class NoFreePort(Exception):
    """Every tried port of the range is taken."""


def hold_port(address: str, ports: tuple[int, int]) -> socket.socket:
    """A socket bound to a free port of the range, not listening; closing it frees the port.

    It is bound without SO_REUSEADDR, so nobody else, another agent on this host included, can
    take the port meanwhile; never having listened, it leaves nothing behind when closed. The
    range lies below the one the kernel takes outgoing connections from.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    for _ in range(_TRIES):
        holder = socket.socket(family, socket.SOCK_STREAM)
        try:
            holder.bind((address, random.randint(*ports)))
        except OSError as error:
            holder.close()
            if error.errno == errno.EADDRNOTAVAIL:
                # Rank 0's address as others see it may be translated on the way: any will do.
                address = "::" if family == socket.AF_INET6 else "0.0.0.0"  # noqa: S104 - to try a port, for a moment
            elif error.errno != errno.EADDRINUSE:
                raise
        else:
            return holder
    raise NoFreePort(f"no free port between {ports[0]} and {ports[1]}; widen --ports")
