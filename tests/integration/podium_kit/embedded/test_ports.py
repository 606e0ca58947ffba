"""Ports are free when promised and taken ones name their holder."""

import os
import socket

import psutil
import pytest

from podium_kit.embedded.errors import PortTaken
from podium_kit.embedded.ports import LOOPBACK, accepts_connections, free_ports, require_free


def test_free_ports_are_distinct_and_free() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        require_free(port)


def test_a_taken_port_names_the_process_that_holds_it() -> None:
    with socket.create_server((LOOPBACK, 0)) as listener:
        port = listener.getsockname()[1]
        name = psutil.Process().name()
        with pytest.raises(
            PortTaken, match=rf"port {port} is held by {name} \(process {os.getpid()}\)"
        ):
            require_free(port)
        assert accepts_connections(port)
    assert not accepts_connections(port)


def test_a_taken_port_is_not_promised() -> None:
    (port,) = free_ports(1)
    with socket.create_server((LOOPBACK, port + 1)):
        assert free_ports(1) != [port + 1]
