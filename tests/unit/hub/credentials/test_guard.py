"""By which address a caller's failures are counted."""

from __future__ import annotations

import pytest

from steelyard.hub.credentials.guard import TooMany, network_of


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "unknown"),
        ("", "unknown"),
    ],
)
def test_an_ipv4_address_stands_for_itself_and_an_ipv6_one_for_its_site(host, network):
    assert network_of({"client": (host, 1)}) == network


def test_a_peer_without_an_address_is_counted_with_its_like():
    assert network_of({"client": None}) == network_of({}) == "unknown"


def test_a_wait_is_told_in_whole_seconds_upwards():
    error = TooMany("Too often", wait_s=0.02)
    assert error.headers == {"Retry-After": "1"}
    assert str(error) == "Too often; try again in 1 s"
    assert TooMany("", wait_s=59.2).headers == {"Retry-After": "60"}
