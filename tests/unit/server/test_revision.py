"""The indexes of many skills, made in parts: the same bytes as made as a whole, and most of them made once."""

import gzip
import zlib

import pytest
from tests.support.catalogs import make_catalog, make_skill

from skillwire.model.catalog import PackedSkills, pack_skill
from skillwire.protocols.agent_skills.server import INDEX_PATH, OLD_INDEX_PATH, IndexResponse, Site
from skillwire.server import revision
from skillwire.server.revision import make_index_parts

PATHS = (INDEX_PATH, OLD_INDEX_PATH)
NAMES = [f"skill-{number:03}" for number in range(400)]


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr(revision, "_PART", 16)


def ask(response, accepted="gzip"):
    found = response.ready(b"GET", [(b"accept-encoding", accepted.encode())] if accepted else [])
    assert found is not None
    return found


def make_parts(skills, before=()):
    catalog = make_catalog(*skills.values())
    packed = PackedSkills({name: pack_skill(skill) for name, skill in catalog.skills.items()})
    site = Site(catalog)
    whole = {path: site.lookup(path) for path in PATHS}
    encoded = {path: index.encode() for path, index in whole.items() if isinstance(index, IndexResponse)}
    return *make_index_parts(packed, site, before), encoded


def make(skills, before=()):
    made, parts, whole = make_parts(skills, before)
    answers = {path: ask(made[path]) for path in PATHS}
    assert {path: gzip.decompress(answer.body) for path, answer in answers.items()} == whole
    return answers, parts


def encoded(monkeypatch):
    """Return the list that gets the names of the skills that are encoded from now on."""
    found = []
    encode = Site.encode_part

    def encode_and_note(site, names):
        found.extend(names)
        return encode(site, names)

    monkeypatch.setattr(Site, "encode_part", encode_and_note)
    return found


def test_the_parts_of_an_index_are_one_gzip_stream_with_the_whole_index():
    _, parts = make({name: make_skill(name) for name in NAMES})
    assert len(parts) > 10
    assert [zlib.crc32(name.encode()) % 16 for name in NAMES].count(0) in {len(parts) - 1, len(parts)}


@pytest.mark.parametrize("changed", [NAMES[0], NAMES[200], NAMES[-1], "skill-100-and-more", "a", "z"])
def test_a_change_has_one_part_made_again_or_two(monkeypatch, changed):
    skills = {name: make_skill(name) for name in NAMES}
    first, parts = make(skills)
    again = encoded(monkeypatch)
    after, later = make(skills | {changed: make_skill(changed)._replace(description="Something else.")}, parts)
    assert changed in again
    assert len(again) <= max(len(part.packed) for part in parts) + 1
    assert {after[path].head for path in PATHS}.isdisjoint({first[path].head for path in PATHS})
    again.clear()
    restored, _ = make(skills, later)
    assert 0 < len(again) <= max(len(part.packed) for part in parts)
    assert restored == first


def test_servers_with_other_histories_send_equal_bytes():
    skills = {name: make_skill(name) for name in NAMES}
    _, parts = make({name: skills[name] for name in NAMES[::3]})
    _, parts = make({name: skills[name] for name in NAMES[:300]}, parts)
    assert make(skills, parts)[0] == make(skills)[0]


def test_a_part_without_a_skill_that_old_clients_can_name_leaves_no_comma():
    odd = {name: make_skill(name, "what?.md") for name in NAMES}
    make(odd)
    make({name: odd[name] if place < 250 else make_skill(name) for place, name in enumerate(NAMES)})
    make({name: odd[name] if place > 250 else make_skill(name) for place, name in enumerate(NAMES)})


@pytest.mark.parametrize("accepted", ["", "br", "identity", "br, gzip;q=0"])
def test_without_gzip_the_index_is_inflated(accepted):
    made, _, whole = make_parts({name: make_skill(name) for name in NAMES})
    answer = ask(made[INDEX_PATH], accepted)
    assert answer.body == whole[INDEX_PATH]
    assert b"content-encoding" not in answer.head.lower()
    assert b"content-length: %d\r\n" % len(answer.body) in answer.head.lower()


def test_a_client_that_accepts_brotli_too_gets_gzip():
    made, _, _ = make_parts({"one": make_skill("one")})
    assert b"content-encoding: gzip\r\n" in ask(made[INDEX_PATH], "br, gzip").head.lower()
