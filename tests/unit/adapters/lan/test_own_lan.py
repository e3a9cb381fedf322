"""A test's network on loopback is nobody else's, as long as the test runs."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.loopback_lan import own_lan

ROOT = Path(__file__).parents[4]
ANOTHER = "import json; from tests.support.loopback_lan import own_lan; print(json.dumps(own_lan()))"


def test_no_two_networks_of_one_process_have_a_port():
    assert len({own_lan().port for _ in range(50)}) == 50


def test_the_port_is_held_so_that_nobody_else_is_given_it():
    lan = own_lan()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", lan.port))


def test_another_process_has_another_group():
    lan = own_lan()
    done = subprocess.run([sys.executable, "-c", ANOTHER], cwd=ROOT, capture_output=True, text=True, check=True)
    group, port = json.loads(done.stdout)
    assert group != lan.group
    assert port != lan.port
