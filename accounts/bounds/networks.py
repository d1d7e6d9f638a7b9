"""Addresses from which a token may be used: read strictly, written one way, asked in each call; and
how addresses are counted."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence

MOST = 10
_MAX_TEXT = 64
_IPV6_PREFIX = 64
_EXAMPLES = "192.0.2.7, 10.1.0.0/16 or 2001:db8::/48"


def read_networks(texts: Iterable[str]) -> list[str]:
    """Addresses and networks as they are kept, each once; ValueError names the wrong one."""
    found = dict.fromkeys(_read(text.strip()) for text in texts if text.strip())
    if len(found) > MOST:
        raise ValueError(f"There are {len(found)} networks; give at most {MOST}.")
    return list(found)


def is_within(networks: Sequence[str], address: str) -> bool:
    """Whether the address lies in one of them; no for one that is not known."""
    try:
        asked = ipaddress.ip_address(address)
    except ValueError:
        return False
    # A socket that listens for both families tells callers of the older one as the newer.
    asked = getattr(asked, "ipv4_mapped", None) or asked
    return any(asked in ipaddress.ip_network(one) for one in networks)


def network_of(address: str) -> str:
    """An address as it is counted: of version 6 its first half, which is one customer's."""
    if ":" not in address:
        return address
    try:
        found = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if found.ipv4_mapped:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Network((found, _IPV6_PREFIX), strict=False))


def _read(text: str) -> str:
    if len(text) > _MAX_TEXT or not text.isascii() or "%" in text:
        raise ValueError(f"{text[:_MAX_TEXT]!r} is no address; write {_EXAMPLES}.")
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"{text!r} is no address and no network; write {_EXAMPLES}.") from None
    if str(network.network_address) != str(_address(text)):
        raise ValueError(f"{text} lies within {network}; write that, or one address.")
    if network.prefixlen == 0:
        raise ValueError(f"{text} is every address; leave it out to bind the token to none.")
    if isinstance(network, ipaddress.IPv6Network) and network.network_address.ipv4_mapped:
        raise ValueError(f"{text} is an IPv4 address in IPv6 form; write it as IPv4.")
    return str(network.network_address) if network.num_addresses == 1 else str(network)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(text.partition("/")[0])
