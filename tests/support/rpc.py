"""Folders of skills as an endpoint of the Skills Protocol tells them, without a server."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Container, Mapping
from typing import Any, NamedTuple

from skillwire.errors import SkillwireError
from skillwire.folder.publish import PreparedSkill, prepare_files
from skillwire.model.access import Principal
from skillwire.model.catalog import Catalog
from skillwire.model.digest import Digest
from skillwire.model.execution import RunSettings
from skillwire.model.skill import FileContent
from skillwire.protocols.skills_rpc.codec import (
    Batch,
    Call,
    Refused,
    decode,
    decode_params,
    encode_error,
    encode_result,
    join_batch,
    params_type,
)
from skillwire.protocols.skills_rpc.messages import METHODS, CreateBlob, ExecuteSkill, RunCode
from skillwire.protocols.skills_rpc.server import SkillIndex, SkillsRpc
from skillwire.server.runs import Runs


class Published(NamedTuple):
    """A catalog, and the bytes of its files by their digests."""

    catalog: Catalog
    contents: Mapping[Digest, bytes]

    def rpc(self, principal: Principal | None = None) -> SkillsRpc:
        """Return what ``principal`` is told; all and everything when it is None."""
        visible = self.catalog if principal is None else self.catalog.visible_to(principal)
        usable: Container[str] = (visible if principal is None else self.catalog.usable_by(principal)).skills
        return SkillsRpc(SkillIndex(visible.skills, SkillIndex(self.catalog.skills)), usable, self.contents.get)


def publish(publisher: str = "acme", **folders: Mapping[str, str | bytes]) -> Published:
    """Return folders of skills, published: name (with ``_`` for a hyphen) → files, SKILL.md being made if not there."""
    skills, contents = [], {}
    for key, files in folders.items():
        name = key.replace("_", "-")
        skill_md = f"---\nname: {name}\ndescription: Does {name}.\n---\nDo it.\n"
        written = {"SKILL.md": skill_md, **files}
        told = tuple(
            FileContent(path, text.encode() if isinstance(text, str) else text) for path, text in written.items()
        )
        prepared = prepare_files(name, told, publisher)
        assert isinstance(prepared, PreparedSkill), prepared.findings
        skills.append(prepared.skill)
        for file, content in zip(prepared.skill.files, prepared.files, strict=True):
            contents[file.digest] = bytes(content.content)
    return Published(Catalog.of(skills, 1), contents)


def call_rpc(rpc: SkillsRpc, method: str, **params: Any) -> Any:
    """Return the result of a method that needs no run, decoded."""
    return json.loads(_call(rpc, method, params))


def answer(data: bytes, call: Callable[[str, Any], object]) -> Any:
    """Return the answer to what ``data`` asks for, decoded, as the pure parts give it; None for none."""
    request = decode(data)
    if isinstance(request, Batch):
        written = join_batch(_answer(item, call) for item in request.items)
    else:
        written = _answer(request, call)
    return None if written is None else json.loads(written)


def serving(rpc: SkillsRpc) -> Callable[[str, Any], object]:
    return lambda method, params: _call(rpc, method, params)


def _answer(item: Call | Refused, call: Callable[[str, Any], object]) -> bytes | None:
    if isinstance(item, Refused):
        return encode_error(item.request_id, item.error)
    try:
        written = encode_result(item.request_id, call(item.method, item.params))
    except SkillwireError as error:
        written = encode_error(item.request_id, error)
    return None if item.is_notification else written


def _call(rpc: SkillsRpc, method: str, params: Any) -> bytes:
    kind = params_type(method)
    assert METHODS[method] is kind
    written: bytes = getattr(rpc, method)(decode_params(params, kind))
    return written


ANNA, BERT = "principal anna", "principal bert"
ON = RunSettings(execute_skill=True, run_code=True, blob_bytes=50_000, blobs_per_owner=400_000)
CODE = "def main(args):\n    return args\n"


class Site:
    """A server's runs, and everybody's audience."""

    def __init__(self, caller):
        self.application = caller.application
        self.runs: Runs = self.application.services.executions.runs
        self.desk = self.application.services.executions.service

    @property
    def audience(self):
        return self.application.catalog.current.public_view

    @property
    def skills(self):
        index = SkillIndex(self.audience.visible.skills)
        return SkillsRpc(index, self.audience.usable.skills, self.application.catalog.blobs.read)

    async def execute(self, name, args=None, owner=ANNA, **more):
        return await self.runs.execute_skill(owner, self.skills, ExecuteSkill(name=name, args=args or {}, **more))

    async def code(self, code=CODE, args=None, owner=ANNA, **more):
        return await self.runs.run_code(owner, self.skills, RunCode(code=code, args=args or {}, **more))

    async def blob(self, content="hello", kind="text/plain", owner=ANNA, **more):
        return (await self.runs.blobs.create(owner, CreateBlob(content=content, kind=kind, **more))).blob_id


@contextlib.contextmanager
def held_back(desk):
    """Hold what is committed back; yields what says that something waits, and what lets it go."""
    waits, go_on = asyncio.Event(), asyncio.Event()
    accept = desk.ledger.accept_all

    async def slow(*given, **more):
        waits.set()
        await go_on.wait()
        return await accept(*given, **more)

    desk.ledger.accept_all = slow
    try:
        yield waits, go_on
    finally:
        go_on.set()
        del desk.ledger.accept_all
