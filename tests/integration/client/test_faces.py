"""The two clients are one: the same verbs, the same arguments, each told in a docstring and shown in the page."""

import inspect
import re
from pathlib import Path

import pytest

from skillwire import AsyncClient, AsyncRemoteSkill, Client, RemoteSkill, dht
from skillwire.client.registry import AsyncRemoteRegistry, RemoteRegistry
from skillwire.lan import AsyncLan, Lan
from skillwire.rpc import AsyncRpcSkills, RpcSkills

PROJECT = Path(__file__).parents[3]
PAGE = (PROJECT / "docs" / "how-to" / "use-the-sdk.md").read_text()


def verbs(kind):
    return {name: member for name, member in inspect.getmembers(kind, callable) if not name.startswith("_")}


def parameters(verb):
    """Return name, kind and annotation of each; a default that is a function is another one for each class."""
    return [(row.name, row.kind, row.annotation) for row in inspect.signature(verb).parameters.values()]


KINDS = [
    (Client, AsyncClient),
    (RemoteSkill, AsyncRemoteSkill),
    (RpcSkills, AsyncRpcSkills),
    (Lan, AsyncLan),
    (RemoteRegistry, AsyncRemoteRegistry),
    (dht.Client, dht.AsyncClient),
]


@pytest.mark.parametrize(("blocking", "awaited"), KINDS)
def test_both_have_the_same_verbs_with_the_same_arguments(blocking, awaited):
    assert verbs(blocking).keys() == verbs(awaited).keys()
    for name, verb in verbs(blocking).items():
        other = verbs(awaited)[name]
        assert parameters(verb) == parameters(other)
        assert inspect.isgeneratorfunction(verb) == inspect.isasyncgenfunction(other)
        assert not inspect.iscoroutinefunction(verb)
        is_awaited = inspect.iscoroutinefunction(other) or inspect.isasyncgenfunction(other)
        assert is_awaited or name in {"set_token", "rpc", "registry", "listen", "watch"}


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in (Client, RemoteSkill, RpcSkills, RemoteRegistry, dht.Client) for name in verbs(kind)],
)
def test_a_verb_is_documented_and_shown(kind, name):
    assert inspect.getdoc(getattr(kind, name))
    assert re.search(rf"\.{name}\(|`{name}`", PAGE)


def test_no_client_shows_the_flows_that_it_drives():
    assert not hasattr(Client, "run")
    assert not hasattr(AsyncClient, "run")
