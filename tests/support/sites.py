"""What a server publishes, looked at by hand: nothing is watched."""

import structlog
from tests.support.publishing import Asgi, write_skill

from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.files.published_folders import PublishedFolders
from skillwire.adapters.sqlite.search import SearchIndex
from skillwire.server import create_app
from skillwire.server.catalog_service import CatalogService


class Published:
    """A publication that is driven by hand: nothing is watched."""

    def __init__(self, tmp_path, *roots):
        self.skills = tmp_path / "skills"
        self.skills.mkdir(exist_ok=True)
        self.blobs = FileBlobs(tmp_path / "blobs")
        self.folders = PublishedFolders([str(root) for root in roots or (self.skills,)], "acme", self.blobs)
        self.publication = CatalogService(self.folders, self.blobs, lambda: SearchIndex(self.blobs.directory))
        self.loaded = []

    def look(self, touched=None):
        """Look at the folders once; return the revision that is current then."""
        self.publication._refresh(touched)
        return self.publication.current

    @property
    def names(self):
        revision = self.publication.current
        assert revision is not None
        return list(revision.site.names)

    def description(self, name):
        return self.publication._skills.usable[name].description


INDEX = "/.well-known/agent-skills/index.json"
FILE = "/.well-known/agent-skills/plan/SKILL.md"
DESCRIPTOR = "/skills/plan.json"
HOST = {"Host": "skills.example.com"}
PUBLIC = 'access = "public"\n'


class Site:
    """A site that is looked at by hand, with one public skill that is called ``plan``."""

    def __init__(self, tmp_path, files):
        self.folder = write_skill(tmp_path / "skills", "plan", files)
        write_skill(tmp_path / "skills", "other")
        self.application = create_app([tmp_path / "skills"], blobs=tmp_path / "blobs", publisher="acme")
        self.publication = self.application.catalog
        self.client = Asgi(self.application)
        self.look()

    def look(self):
        with structlog.testing.capture_logs() as log:
            self.publication._refresh(None)
        return log

    def write(self, **files):
        for name, text in files.items():
            (self.folder / name.replace("_", ".")).write_bytes(text if isinstance(text, bytes) else text.encode())
        return self.look()

    async def statuses(self):
        return [(await self.client.get(path, HOST)).status for path in (FILE, DESCRIPTOR)]

    async def lists(self):
        paths = (INDEX, "/skills", "/.well-known/skill-sharing", "/api/search?q=plan")
        return ["plan" in (await self.client.get(path, HOST)).body.decode().replace("q=plan", "") for path in paths]
