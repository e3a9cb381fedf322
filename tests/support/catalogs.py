"""Catalogs of made-up skills, for what needs no folder."""

from skillwire.model.catalog import Catalog
from skillwire.model.digest import Digest
from skillwire.model.skill import Artifact, Identifiers, Sharing, Skill, SkillFile


def make_skill(name, *paths, publisher="acme", content="1", capability_type="knowledge", **more):
    """Return a skill whose files ``paths`` (behind SKILL.md) have made-up bytes that depend on ``content``."""
    files = tuple(
        SkillFile(path, len(content_of(name, path, content)), Digest.of(content_of(name, path, content)))
        for path in ("SKILL.md", *paths)
    )
    if paths:
        packed = content_of(name, "*", content)
        artifact = Artifact("archive", "application/gzip", ".tar.gz", len(packed), Digest.of(packed))
    else:
        artifact = Artifact("skill-md", "text/markdown", ".md", files[0].size, files[0].digest)
    return Skill(
        publisher=publisher,
        name=name,
        version="1.0.0",
        description=f"Does {name}.",
        files=files,
        artifact=artifact,
        identifiers=Identifiers(f"{publisher}/{name}", name, f"{publisher}.{name.replace('-', '.')}", publisher),
        sharing=Sharing(name.title(), f"Does {name}.", "1.0.0", capability_type),
        **more,
    )


def content_of(name, path, content="1"):
    """Return the bytes of a file of a made-up skill."""
    return f"{name}/{path}: {content}".encode()


def make_catalog(*skills):
    return Catalog.of(skills, 1)
