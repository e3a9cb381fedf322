"""The SDK's face: :class:`Client` and :class:`AsyncClient`.

Both offer the same verbs over the same flows (:mod:`skillwire.client.session`); they differ only in how a step is
done (:mod:`skillwire.client.runner`), and a test compares their signatures. Loading is
progressive: an index gives names and descriptions, ``body()`` the instructions of one skill, ``open()`` one of its
files. An artifact is fetched once, when the first of its files is asked for::

    with Client() as client:
        for skill in client.index("example.com"):
            print(skill.name, skill.description)
        print(client.skill("example.com/code-review").body())
        client.add("example.com/code-review", consent=True)

Each is imported when it is asked for: the command line does without the asynchronous one.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skillwire.client.asynchronous import AsyncClient, AsyncRemoteSkill
    from skillwire.client.rpc_asynchronous import AsyncRpcSkills
    from skillwire.client.rpc_synchronous import RpcSkills
    from skillwire.client.synchronous import Client, RemoteSkill

__all__ = ["AsyncClient", "AsyncRemoteSkill", "AsyncRpcSkills", "Client", "RemoteSkill", "RpcSkills"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "asynchronous" if name.startswith("Async") else "synchronous"
    module = f"rpc_{module}" if name.endswith("RpcSkills") else module
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
