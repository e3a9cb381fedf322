"""Addresses of skills over MCP: what is written is read again, and nothing else means anything."""

from base64 import urlsafe_b64decode
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.exceptions import MCPError

from skillwire import limits
from skillwire.bridges.mcp.resources import find_target, page_after, uri_of
from skillwire.model.digest import Digest
from skillwire.model.skill import Artifact, Skill, SkillFile, is_skill_name

NAMES = st.from_regex(r"[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,3}", fullmatch=True).filter(is_skill_name)
PATHS = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/"), min_size=1), min_size=1).map(
    "/".join
)


def skill(name, *paths):
    digest = Digest.of(b"")
    files = tuple(SkillFile(path, 0, digest) for path in ("SKILL.md", *paths))
    return Skill(
        "local", name, "1.0.0", "Does it.", files, Artifact("archive", "application/gzip", ".tar.gz", 0, digest)
    )


@given(NAMES, PATHS)
def test_uri_of_a_file_means_that_file(name, path):
    one = skill(name, path)
    uri = uri_of(one, path)
    found = find_target(uri, {name: one})
    if len(uri) > limits.URL_LENGTH:
        assert found is None
    else:
        assert found is not None
        assert found.file == SkillFile(path, 0, Digest.of(b""))
        assert find_target(uri, {}) is None


@given(st.text())
def test_whatever_else_is_asked_for_means_nothing(text):
    one = skill("notes", "a.txt")
    files = {uri_of(one, file.path): file for file in one.files}
    for uri in (text, f"skill://notes/{text}", f"skill://{text}"):
        found = find_target(uri, {"notes": one})
        named = files.get(unquote(uri))  # a character may be written in two ways
        assert (found.file if found else None) == named


@given(st.sets(NAMES, max_size=200))
def test_pages_are_the_list(names):
    ordered, cursor = sorted(names), None
    found: list[str] = []
    while True:
        page, cursor = page_after(ordered, cursor)
        found += page
        if cursor is None:
            break
        assert len(page) == limits.MCP_PAGE
    assert found == ordered


@given(st.text())
def test_cursor_of_somebody_else_is_refused_or_a_place(text):
    try:
        page, _ = page_after(["a", "b"], text)
    except MCPError as error:
        assert "cursor" in error.error.message  # noqa: PT017  # either may happen
    else:
        last = urlsafe_b64decode(text).decode()
        assert list(page) == [name for name in ("a", "b") if name > last]


def test_empty_list_has_one_page():
    assert page_after([], None) == ([], None)
    with pytest.raises(MCPError):
        page_after([], "")
