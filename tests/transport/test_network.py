"""Sockets come into being in one module."""

from __future__ import annotations

import errno
import socket

import pytest

from tideflow.transport import free_ports, network


def test_ports_are_free_and_as_many_as_asked_for():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert port not in free_ports([port, *range(20000, 20100)], 3)
        with pytest.raises(OSError, match="no 1 free ports"):
            free_ports([port], 1)
    assert free_ports([port], 0) == []
    assert free_ports([port], 1) == [port]


def test_a_port_that_is_taken_cannot_be_bound():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError) as found:
            network.try_to_bind("127.0.0.1", taken.getsockname()[1])
    assert found.value.errno == errno.EADDRINUSE


def test_a_socket_that_cannot_connect_is_closed(tmp_path):
    # Warnings are errors here: a socket left to the collector would fail the test.
    with pytest.raises(FileNotFoundError):
        network.open_unix(str(tmp_path / "nobody"), timeout_s=1.0)


def test_this_host_knows_its_own_addresses():
    assert network.is_address_of_this_host("127.0.0.1")
    assert not network.is_address_of_this_host("192.0.2.1")
