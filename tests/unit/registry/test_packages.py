"""The packages of a registry: what its use cases decide before a store is asked."""

import pytest
from tests.support.memory_packages import MemoryPackages
from tests.support.registry_site import skill_archive

from skillwire.model.digest import Digest
from skillwire.registry.accounts import PUBLISH, Actor
from skillwire.registry.packages import Registry
from skillwire.server.uploads import read_upload


async def test_a_right_to_publish_counts_in_one_namespace():
    registry = Registry(MemoryPackages(), lambda: 1.0)
    right = await registry.check_publication(Actor("ann", frozenset({PUBLISH})), "ann")
    archive = skill_archive()
    with pytest.raises(ValueError, match="bob"):
        await registry.publish(right, read_upload(archive, "bob"), Digest.of(archive))
    assert (await registry.publish(right, read_upload(archive, "ann"), Digest.of(archive))).how == "created"


async def test_a_namespace_that_was_made_after_the_token_was_read_is_published_to():
    registry = Registry(MemoryPackages(), lambda: 1.0)
    ann, archive = Actor("ann", frozenset({PUBLISH})), skill_archive()
    first, second = [await registry.check_publication(ann, "ann") for _ in range(2)]
    for right in (first, second, await registry.check_publication(ann, "ann")):
        made = await registry.publish(right, read_upload(archive, "ann"), Digest.of(archive))
    assert made.how == "repeated"
