"""Whatever changes, what the next revision takes over and changes is what it would be if it were made anew."""

import random
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.support.catalogs import make_skill

from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.files.published_folders import PublishedFolders
from skillwire.adapters.files.published_packages import IdentifierIndex, PackageFeed, hash_identifiers, hash_name
from skillwire.folder.load import IdentifiedSkill
from skillwire.model.access import Access
from skillwire.model.catalog import Catalog, PackedSkills, SeenSkill, SkillChanges, no_skills, pack_skill
from skillwire.model.package import ChangeCursor, ChangedPackage, ChangedPackages, Package, PackageName, State
from skillwire.model.skill import Identifiers
from skillwire.protocols.agent_skills.server import Site
from skillwire.registry.search import FacetCounts, Profile, count_facets

_NAMES = st.sampled_from(["a", "b-c", "c", "d"])
#: ``x-y/c`` and ``x/y-c`` have one name in the Skills Protocol.
_PACKAGES = st.tuples(
    st.sampled_from([("x", "a"), ("y", "a"), ("x", "b-c"), ("x-b", "c"), ("y", "c"), ("y", "b-c"), ("z", "d")]),
    st.sampled_from(Access),
    st.sampled_from(["1", "2"]),
    st.booleans(),  # whether it is served
    st.booleans(),  # whether it owns its name
)


class Feed(PackageFeed):
    """The changes of a registry, handed out as they are told."""

    def __init__(self) -> None:
        self.coming = ChangedPackages(ChangeCursor(), ())

    def changes(self):
        found, self.coming = self.coming, ChangedPackages(ChangeCursor(), ())
        return found

    def write_blobs(self, skills):
        assert not list(skills)  # none of them is an action


def _changed(number, package):
    (namespace, name), access, content, is_served, owns_name = package
    skill = make_skill(name, publisher=namespace, content=content, access=access)
    skill = skill._replace(
        identifiers=skill.identifiers._replace(skills_rpc=f"{namespace}.{name}".replace("-", "."), namespace="")
    )
    described = Package(PackageName(namespace, name), 1.0, access, State(), "1.0.0")
    return ChangedPackage(number, described, pack_skill(skill) if is_served else None, State(), owns_name)


def _told(folders):
    return [dict(one.items()) for one in (*folders.skills, *folders.listed)]


@given(st.lists(st.lists(_PACKAGES, max_size=3), max_size=8), st.booleans())
def test_packages_that_changed_get_the_names_that_they_would_get_at_a_start(steps, is_restored):
    with tempfile.TemporaryDirectory() as folder:
        blobs, feed = FileBlobs(Path(folder)), Feed()
        followed = PublishedFolders([], "acme", blobs, packages=feed)
        numbers: dict[tuple[str, str], int] = {}
        latest: dict[int, ChangedPackage] = {}
        owners: dict[str, int] = {}
        for step in steps:
            now = {}
            for package in step:
                number = numbers.setdefault(package[0], len(numbers) + 1)
                owns = package[4] and owners.setdefault(package[0][1], number) == number
                now[number] = _changed(number, (*package[:4], owns))
            latest |= now
            before = followed.listed
            feed.coming = ChangedPackages(ChangeCursor(1), tuple(now.values()))
            followed.refresh()
            anew = Feed()
            anew.coming = ChangedPackages(ChangeCursor(1), tuple(latest.values()), is_anew=is_restored)
            other = PublishedFolders([], "acme", blobs, packages=anew)
            other.refresh()
            assert _told(followed) == _told(other)
            assert [list(one) for one in followed.skills] == [list(one) for one in other.skills]
            for was, one in zip(before, followed.listed, strict=True):
                alone = PackedSkills({name: one.packed(name) for name in one})  # which knows of no origin
                found, expected = one.changes_since(was), alone.changes_since(was)
                assert [set(names) for names in found] == [set(names) for names in expected]


@given(st.lists(st.tuples(st.dictionaries(_NAMES, st.integers(0, 8), max_size=3), st.sets(_NAMES))))
def test_sets_of_skills_follow_changes(steps):
    sets, held = no_skills(), dict[str, SeenSkill]()
    for changed, removed in steps:
        seen = {
            name: SeenSkill(b"%d" % (number // 3), is_known=number % 3 > 0, is_usable=number % 3 > 1)
            for name, number in changed.items()
        }
        before, sets = sets, sets.updated(seen, removed)
        held = {name: one for name, one in held.items() if name not in removed} | seen
        for place, (old, now) in enumerate(zip(before, sets, strict=True)):
            names = sorted(name for name, one in held.items() if (True, one.is_known, one.is_usable)[place])
            assert list(now) == names
            assert {name: now.packed(name) for name in now} == {name: held[name].packed for name in names}
            added, differing, gone = now.changes_since(old)
            assert set(added) == now.keys() - old.keys()
            assert set(gone) == old.keys() - now.keys()
            both = now.keys() & old.keys()
            assert set(differing) == {name for name in both if now.packed(name) != old.packed(name)}


_SKILLS = st.builds(
    lambda name, publisher, content, scenes: make_skill(name, publisher=publisher, content=content, scenes=scenes),
    st.sampled_from(["one", "two", "three", "four"]),
    st.sampled_from(["acme", "team"]),
    st.sampled_from(["1", "2"]),
    st.sampled_from([(), ("acme",), ("auth", "../x"), ("auth",)]),
)


def _catalog(skills):
    found = {skill.name: skill for skill in skills}
    return Catalog(1, PackedSkills({name: pack_skill(found[name]) for name in sorted(found)}))


@given(st.lists(st.lists(_SKILLS, max_size=6), min_size=1, max_size=5))
def test_a_site_that_follows_another_has_the_tables_of_one_made_anew(catalogs):
    before = _catalog(catalogs[0])
    site = Site(before, "https://skills.example.com", [make_skill("old").artifact])
    for skills in catalogs[1:]:
        now = _catalog(skills)
        assert isinstance(now.skills, PackedSkills)
        assert isinstance(before.skills, PackedSkills)
        changes: SkillChanges = now.skills.changes_since(before.skills)
        superseded = [make_skill("older", content=str(len(skills))).artifact]
        site, before = site.followed_by(now, changes, superseded), now
        alone = Site(now, "https://skills.example.com", superseded)
        assert site.names == alone.names
        assert site.tables.names == alone.tables.names
        assert dict(site.tables.by_digest) == dict(alone.tables.by_digest)
        assert site.tables.publishers == alone.tables.publishers
        assert site.tables.scenes == alone.tables.scenes
        assert site.tables.superseded == alone.tables.superseded
        assert list(site.paths()) == list(alone.paths())


@given(st.integers(), st.sampled_from([3, 40, 700]), st.integers(0, 2))
def test_counts_of_facets_follow_changes(seed, values, most):
    source = random.Random(seed)  # noqa: S311  # repeatable, nothing secret

    def make_profile():
        def words(most):
            return tuple(dict.fromkeys(f"v{source.randrange(values)}" for _ in range(source.randint(0, most))))

        return Profile(words(1), words(1), words(6)) if source.random() < 0.9 else None

    profiles = [make_profile() for _ in range(300)]
    counts = FacetCounts(tuple(profiles))
    for _ in range(4):
        slots = source.sample(range(len(profiles)), 20 * most)
        for slot in slots:
            profiles[slot] = make_profile()
        slots += range(len(profiles), len(profiles) + most)
        profiles += [make_profile() for _ in range(most)]
        counts = counts.followed_by(tuple(profiles), slots)
        hits = [slot for slot, one in enumerate(profiles) if one and source.random() < 0.5]
        assert counts.of(hits) == count_facets([one for slot in hits if (one := profiles[slot])])
        chosen = {f"v{source.randrange(values)}" for _ in range(source.randint(1, 3))}
        narrowed = counts.narrow("tag", chosen, hits)
        if narrowed is not None:
            assert narrowed == [slot for slot in hits if (one := profiles[slot]) and not chosen.isdisjoint(one.tag)]
        else:
            assert values > 512


_IDENTIFIED = st.builds(
    lambda name, *others: IdentifiedSkill("path", name, Identifiers(*others)), *[st.sampled_from("abcdef")] * 4
)


@given(st.dictionaries(st.integers(1, 30), _IDENTIFIED), st.dictionaries(st.integers(1, 30), _IDENTIFIED))
def test_packages_that_share_an_identifier_are_found(first, changes):
    index = IdentifierIndex(first.items())
    held = dict(first)
    for number, one in changes.items():
        if number in held:
            index.remove(number, hash_identifiers(held[number]))
        held[number] = one
        index.add(number, hash_identifiers(one))
    found = index.related({hash_name("a")}, lambda number: hash_identifiers(held[number]))
    expected: set[int] = set()
    reached = {(0, "a")}
    while True:
        sharing = {
            number: ids
            for number, one in held.items()
            if (ids := set(enumerate((one.name, *one.identifiers[:3])))) & reached
        }
        if sharing.keys() == expected:
            break
        expected, reached = set(sharing), reached.union(*sharing.values())
    assert found == expected
