"""Addresses that a token is bound to."""

from __future__ import annotations

import pytest

from accounts.bounds.networks import MOST, is_within, read_networks


def test_addresses_and_networks_are_kept_one_way_and_once():
    sent = [" 192.0.2.7 ", "10.1.0.0/16", "2001:DB8:0::/48", "2001:db8::/48", "192.0.2.7/32", ""]
    assert read_networks(sent) == ["192.0.2.7", "10.1.0.0/16", "2001:db8::/48"]
    assert read_networks([]) == []


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("somewhere.example.org", "no address"),
        ("10.1.2.3/8", "10.0.0.0/8"),
        ("2001:db8::1/48", "2001:db8::/48"),
        ("0.0.0.0/0", "every address"),
        ("::/0", "every address"),
        ("10.0.0.0/33", "no network"),
        ("10.0.0.0/255.255.0.0/16", "no network"),
        ("fe80::1%eth0", "no address"),
        ("::ffff:192.0.2.7", "IPv4"),
        ("١٠.0.0.1", "no address"),
        ("3221225985", "no network"),
        ("010.1.1.1", "no network"),
        ("1" * 500, "no address"),
    ],
)
def test_what_is_none_is_named(text, named):
    with pytest.raises(ValueError, match=named):
        read_networks(["192.0.2.7", text])


def test_the_list_is_short():
    with pytest.raises(ValueError, match=f"at most {MOST}"):
        read_networks(f"192.0.2.{n}" for n in range(MOST + 1))


@pytest.mark.parametrize(
    ("address", "is_in"),
    [
        ("10.1.255.255", True),
        ("10.2.0.0", False),
        ("::ffff:10.1.0.9", True),
        ("::ffff:10.2.0.9", False),
        ("2001:db8::9", True),
        ("2001:db9::9", False),
        ("", False),
        ("testclient", False),
    ],
)
def test_who_lies_within(address, is_in):
    assert is_within(["10.1.0.0/16", "2001:db8::/48"], address) is is_in
