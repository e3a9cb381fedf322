"""A network on loopback for real servers and agents, which all end with the test."""

import contextlib

import pytest
from tests.support.eventually import PATIENCE
from tests.support.lan_agents import FAST, on_loopback
from tests.support.lan_server import LanServer
from tests.support.loopback_lan import own_lan

LOOPBACK = ("--interface", "127.0.0.1")


@pytest.fixture
def place(tmp_path):
    """Give what starts servers and agents on one network of their own, which all end with the test."""

    class Place:
        def __init__(self, stack):
            self._stack = stack
            self.lan = own_lan()

        def serve(self, folder, name="first", **options):
            server = LanServer(folder, tmp_path / name, *options.pop("arguments", LOOPBACK), lan=self.lan, **options)
            self._stack.callback(server.end)
            return server

        def agent(self, name="observer", skills=()):
            agent = on_loopback(name, skills, home=tmp_path / name, settings=self.lan._asdict(), figures=FAST)
            self._stack.callback(self._end, agent.process)
            return agent.started()

        @staticmethod
        def _end(process):
            process.kill()
            process.communicate(timeout=PATIENCE)

    with contextlib.ExitStack() as stack:
        yield Place(stack)
