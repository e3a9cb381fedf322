"""A server with a registry that is called over ASGI, its accounts, and archives of skills to publish."""

import gzip
import io
import json
import tarfile
import zipfile
from typing import Any, cast

from tests.support.publishing import Asgi

from skillwire.adapters import stores as opening
from skillwire.errors import SkillwireError
from skillwire.model.package import Account, Change
from skillwire.server import create_app
from skillwire.wire.exchange import HttpResponse

API = "/api/registry"
ALL = ("read", "publish", "admin")


def skill_files(name="notes", version="1.0.0", text="Do it.\n", **files):
    """Return the files of a skill that passes the strict rules, by path; ``skill_toml`` stands for ``skill.toml``."""
    head = f'---\nname: {name}\ndescription: "Does something useful."\nmetadata:\n  version: {version}\n---\n\n{text}'
    return {"SKILL.md": head, **{path.replace("_", "."): content for path, content in files.items()}}


def tar_gz(files, folder=""):
    """Return the files as an archive, in ``folder`` if one is named."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path, content in files.items():
            data = content if isinstance(content, bytes) else content.encode()
            member = tarfile.TarInfo(f"{folder}/{path}" if folder else path)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return gzip.compress(packed.getvalue(), mtime=0)


def zipped(files, folder=""):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            archive.writestr(f"{folder}/{path}" if folder else path, content)
    return packed.getvalue()


def skill_archive(name="notes", version="1.0.0", text="Do it.\n", **files):
    return tar_gz(skill_files(name, version, text, **files))


class RegistrySite(Asgi):
    """A registry, with the tokens of its accounts; ``look`` takes what was published into the catalog."""

    def __init__(self, folder, *, folders=(), **options):
        application = create_app(
            folders, blobs=folder / "blobs", publisher="local", registry=True, access_log=False, **options
        )
        super().__init__(application)
        self.folder = folder
        self.parts = cast("Any", application.services).packages
        self.registry = self.parts.registry
        self.store = self.registry.store
        self.tokens: dict[str, str] = {}

    def server_beside(self):
        """Return another server of the same database."""
        other = RegistrySite(self.folder / "beside")
        other.tokens = self.tokens
        return other

    def look(self):
        self.application.catalog._refresh(None)

    async def account(self, name, *scopes, is_operator=False):
        """Make an account with a token of these scopes, all by default; return the token."""
        await self.store.add_account(Account(name, 1.0, is_operator), Change(1.0, name, "account.create", name))
        self.tokens[name] = await self.token(name, *scopes)
        return self.tokens[name]

    async def token(self, account, *scopes):
        return (await opening.open_stores().tokens().issue("test", scopes=scopes or ALL, account=account)).secret

    async def call(self, method, path, document=None, **more):
        """Call the registry's own API, as :meth:`ask`."""
        return await self.ask(method, f"{API}{path}", document, **more)

    async def ask(self, method, path, document=None, *, by=None, body=b"", fields=None, meanwhile=None):
        """Send a request; ``by`` is an account's name, or a token."""
        own = dict(fields or {})
        if by:
            own["Authorization"] = f"Bearer {self.tokens.get(by, by)}"
        if document is not None:
            body = json.dumps(document).encode()
        return await self.request(path, own, method=method, body=body, meanwhile=meanwhile)

    async def publish(self, namespace, archive=None, *, by=None, query="", **more):
        archive = skill_archive() if archive is None else archive
        path = f"/namespaces/{namespace}/packages{query and '?'}{query}"
        return await self.call("POST", path, body=archive, by=by or namespace, **more)


class AsgiDriver:
    """Sends what an ``AsyncClient`` asks of ``origin`` to a site; ``paths`` has the requests in order."""

    def __init__(self, site, origin):
        self.policy, self.on_traffic, self.paths = None, None, []
        self._site, self._origin = site, origin

    async def send(self, request):
        path = request.url.removeprefix(self._origin)
        self.paths.append(path)
        answer = await self._site.request(path, dict(request.headers), method=request.method, body=request.body or b"")
        return HttpResponse(request.url, answer.status, answer.fields, answer.body)

    async def run_all(self, flows, *, run, on_done=lambda: None, is_enough=lambda _: False, delays=()):  # noqa: ARG002 - the form of drivers
        results = []
        for flow in flows:
            try:
                results.append(await run(flow))
            except SkillwireError as error:
                results.append(error)
            on_done()
        return results

    async def close(self):
        pass
