"""Headers and paths of strangers: whatever they hold, what is chosen is something that exists and is allowed."""

import gzip
import json
from pathlib import Path

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.catalogs import make_catalog, make_skill

from skillwire.protocols.agent_skills.server import (
    BlobResponse,
    CachePolicy,
    IndexResponse,
    Site,
    VersionsResponse,
    skill_paths,
)
from skillwire.server.http import CODINGS, choose_coding, matching_tag, requested_part
from skillwire.server.responses import ByteCache, CachedResponse

CODING = st.sampled_from(["br", "gzip", "identity", "x-gzip", "GZIP", "*", "deflate", "zstd"])
WEIGHT = st.sampled_from(["", ";q=0", ";q=0.0", ";q=0.001", ";q=0.5", ";q=1", ";q=1.000", " ; q=0.9", ";q=2", ";q=x"])
ITEM = st.builds("".join, st.tuples(CODING, WEIGHT))
ACCEPT = st.lists(ITEM | st.text(max_size=8), max_size=6).map(",".join)
TAGS = ('"a"', '"b-gzip"', '"b-br"')
SKILLS = (
    make_skill("notes"),
    make_skill("tools", "scripts/run.sh", "references/日本.md", "..notes.md", "a..b/c.md", scenes=("auth",)),
    make_skill("sha256", "0" * 64 + ".md"),
)
SITE = Site(make_catalog(*SKILLS))
PUBLISHED = {digest for skill in SKILLS for digest in (skill.artifact.digest, *(file.digest for file in skill.files))}
CORPUS = json.loads((Path(__file__).parents[1] / "corpus" / "documents" / "file-path.json").read_bytes())
PIECE = st.sampled_from(
    ["", ".well-known", "agent-skills", "skills", "index.json", "sha256", "tools", "notes", "@tools", "@acme", "@auth"]
    + ["SKILL.md", "scripts", "run.sh", "..", ".", "%2e%2e", "tools.tar.gz", SKILLS[1].artifact.digest.hex + ".tar.gz"]
    + [case["data"] for case in CORPUS if len(case["data"]) < 200]
)
PATH = st.lists(PIECE | st.text(max_size=6), max_size=9).map(lambda pieces: "/" + "/".join(pieces)) | st.text()


@given(ACCEPT)
def test_the_coding_is_one_that_exists_and_was_asked_for(accept_encoding):
    coding = choose_coding(accept_encoding)
    assert coding in CODINGS
    asked = accept_encoding.lower()
    assert coding == "identity" or coding in asked or "*" in asked


@given(st.dictionaries(st.sampled_from(["br", "gzip", "identity"]), st.sampled_from([0.0, 0.2, 0.5, 1.0])))
def test_of_well_formed_weights_the_highest_wins(weights):
    coding = choose_coding(", ".join(f"{name};q={weight}" for name, weight in weights.items()))
    assert weights.get(coding, 0.0) == max(weights.values(), default=0.0) or coding == "identity"
    if coding == "identity":
        assert max((weights.get("br", 0.0), weights.get("gzip", 0.0))) <= weights.get("identity", 0.0)


@given(st.text())
def test_a_tag_is_found_only_among_those_that_exist(if_none_match):
    assert matching_tag(if_none_match, TAGS) in {None, *TAGS}


@given(st.lists(st.text(st.characters(codec="latin-1", exclude_characters='" ', exclude_categories=["Cc"]))))
def test_a_list_of_tags_holds_one_when_it_was_written_into_it(values):
    written = [f'"{value}"' for value in values]
    for prefix in ("", "W/"):
        assert matching_tag(", ".join([*written, f"{prefix}{TAGS[1]}"]), TAGS) in TAGS


@given(
    st.text() | st.builds("bytes={}-{}".format, st.integers(0, 20) | st.just(""), st.integers(0, 20) | st.just("")),
    st.integers(0, 12),
)
def test_a_part_lies_within_what_exists(field, size):
    part = requested_part(field, size)
    if part is not None:
        assert 0 <= part.start <= part.stop <= size


@given(PATH)
def test_a_path_leads_to_what_is_published_or_to_nothing(path):
    answer = SITE.lookup(path)
    if isinstance(answer, BlobResponse):
        assert answer.digest in PUBLISHED
        file = path.partition("/.well-known/")[2].split("/", 2)[-1]
        known = {file.path for skill in SKILLS for file in skill.files}
        assert file in known or answer.digest in {skill.artifact.digest for skill in SKILLS}
    elif isinstance(answer, IndexResponse):
        assert set(answer.names) <= {skill.name for skill in SKILLS}
    elif isinstance(answer, VersionsResponse):
        assert answer.found.name in {skill.name for skill in SKILLS}
    else:
        assert answer is None


@pytest.mark.spec("ASD-server-paths")
@given(st.sampled_from(CORPUS), st.sampled_from(["agent-skills", "skills"]), st.sampled_from(["", "/@tools"]))
def test_a_hostile_file_path_gets_no_byte(case, prefix, scope):
    answer = SITE.lookup(f"{scope}/.well-known/{prefix}/tools/{case['data']}")
    if case["expect"] == "reject":
        assert answer is None
    else:
        assert isinstance(answer, BlobResponse)


@given(
    st.from_regex(r"[a-z0-9]+(-[a-z0-9]+)*", fullmatch=True),
    st.sampled_from([".md", ".tar.gz", ".zip"]),
    st.lists(st.from_regex(r"[a-zA-Z0-9._-]+(/[a-zA-Z0-9._-]+)*", fullmatch=True), unique=True),
)
def test_the_paths_of_a_skill_are_its_own(name, extension, files):
    paths = list(skill_paths(name, "f" * 64 + extension, files))
    assert len(paths) == len(set(paths))
    assert all(name in path.split("/")[2:] or "f" * 64 in path or f"{name}{extension}" in path for path in paths[:-3])


@given(st.binary(max_size=4_000), st.sampled_from(["", "gzip", "br", "gzip, br", "*"]))
def test_each_coding_of_an_answer_holds_its_bytes(content, accept_encoding):
    prepared = CachedResponse(content, "application/json", CachePolicy.BRIEF)
    variant = prepared.choose([(b"accept-encoding", accept_encoding.encode())])[1]
    coding = dict(variant.fields[200]).get(b"content-encoding", b"identity").decode()
    decode = {"gzip": gzip.decompress, "br": brotli.decompress, "identity": bytes}[coding]
    assert decode(variant.body) == content
    assert coding in {"identity", *(part.strip() for part in accept_encoding.replace("*", "br").split(","))}
    assert variant.body is not None
    assert len(variant.body) <= len(content)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 40))), st.integers(1, 100))
def test_a_cache_never_holds_more_than_its_bound(puts, bound):
    cache: ByteCache[int, int] = ByteCache(bound)
    for key, size in puts:
        cache.put(key, size, size)
        assert cache.size <= bound
        assert (cache.get(key) is not None) >= (size <= bound // 4 and cache.size >= size and cache.get(key) == size)
    assert cache.size == sum(cache.get(key) or 0 for key in range(21))
