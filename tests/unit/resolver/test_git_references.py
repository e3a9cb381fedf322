"""References to Git repositories, as users type and paste them."""

import pytest

from skillwire.errors import SkillwireError
from skillwire.model.ref import GitFacts, SkillRef
from skillwire.resolver.references import exact_reference_to, parse_reference, reference_to
from skillwire.resolver.sources import GIT, Lookup

HUB = "https://github.com/owner/repo"


@pytest.mark.parametrize(
    ("text", "url", "path", "ref"),
    [
        ("owner/repo", HUB, None, ""),
        ("owner/repo.git", HUB, None, ""),
        ("owner/repo@v1.2.0", HUB, None, "v1.2.0"),
        ("owner/repo@feature/x", HUB, None, "feature/x"),
        ("owner/repo/skills/a", HUB, "skills/a", ""),
        ("owner/repo/a@^1.2", HUB, "a", "^1.2"),
        ("owner/repo/a@>=1.0 <2", HUB, "a", ">=1.0 <2"),
        ("owner/repo/skills/a/SKILL.md@main", HUB, "skills/a", "main"),
        ("owner/repo.with.dots", f"{HUB}.with.dots", None, ""),
        ("https://github.com/owner/repo", HUB, None, ""),
        ("https://github.com/owner/repo/", HUB, None, ""),
        ("https://www.github.com/owner/repo.git", HUB, None, ""),
        ("https://github.com/owner/repo#readme", HUB, None, ""),
        ("https://github.com/owner/repo?tab=readme-ov-file", HUB, None, ""),
        ("github.com/owner/repo/skills/a", HUB, "skills/a", ""),
        ("https://github.com/owner/repo/tree/main", HUB, None, "main"),
        ("https://github.com/owner/repo/tree/main/skills/a", HUB, "skills/a", "main"),
        ("https://github.com/owner/repo/blob/v1/skills/a/SKILL.md?plain=1#L3", HUB, "skills/a", "v1"),
        ("https://github.com/owner/repo/blob/main/SKILL.md", HUB, None, "main"),
        ("https://github.com/owner/repo/releases/tag/v1.0.0", HUB, None, "v1.0.0"),
        ("https://github.com/owner/repo/commit/" + "a" * 40, HUB, None, "a" * 40),
        ("https://gitlab.com/group/repo", "https://gitlab.com/group/repo", None, ""),
        ("https://gitlab.com/g/sub/repo/-/tree/main/skills/a", "https://gitlab.com/g/sub/repo", "skills/a", "main"),
        ("https://git.example/g/repo/-/blob/main/SKILL.md", "https://git.example/g/repo", None, "main"),
        ("https://codeberg.org/o/r/src/branch/main/skills/a", "https://codeberg.org/o/r", "skills/a", "main"),
        ("https://git.example/team/x.git", "https://git.example/team/x.git", None, ""),
        ("git.example/team/x.git/skills/a@v1", "https://git.example/team/x.git", "skills/a", "v1"),
        ("http://127.0.0.1:8000/x.git", "http://127.0.0.1:8000/x.git", None, ""),
        ("localhost:8000/x.git/a", "http://localhost:8000/x.git", "a", ""),
        ("git+https://git.example/~user/x", "https://git.example/~user/x", None, ""),
        ("git+https://git.example/~user/x//skills/a@v2", "https://git.example/~user/x", "skills/a", "v2"),
        ("./x.git", "./x.git", None, ""),
        ("../x/.git/skills/a@1.2.0", "../x/.git", "skills/a", "1.2.0"),
        ("/srv/x.git/a", "/srv/x.git", "a", ""),
        ("~/x.git", "~/x.git", None, ""),
        ("file:///srv/x.git/a@v1", "/srv/x.git", "a", "v1"),
        ("file:///srv/x", "/srv/x/.git", None, ""),
    ],
)
def test_a_repository(text, url, path, ref):
    read = parse_reference(text)
    assert read.lookups == (Lookup(url, path, source=GIT, version=ref),)
    assert read.version == ref


@pytest.mark.parametrize(
    "text",
    [
        "example.com", "example.com/name", "example.com/team/name", "localhost/name", "name", "./folder", "./.github/x",
        "/folder", "example.com/@acme/name@1.2.0", "example.com/name@^1.2", "https://example.com/skills/name", "lan:",
        "example.com/rpc#ns.a.b", "https://github.com", "https://github.com/owner", "example.git/name",
    ],
)  # fmt: skip
def test_what_is_no_repository_stays_what_it_was(text):
    assert all(lookup.source != GIT for lookup in parse_reference(text).lookups)


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("git@github.com:owner/repo.git", "https://github.com/owner/repo.git"),
        ("ssh://git@github.com/owner/repo.git", "https://github.com/owner/repo.git"),
        ("git+ssh://git@host.example:2222/o/r", "https://host.example/o/r.git"),
        ("git://host.example/r.git", "https://host.example/r.git"),
        ("ssh://user:password@host.example/o/r", "SKILLWIRE_TOKENS"),
        ("git+https://user:password@host.example/o/r", "SKILLWIRE_TOKENS"),
        ("ext::sh -c touch% /tmp/x", "https"),
        ("fd::17", "https"),
        ("-oProxyCommand=x@host:repo", "https"),
        ("file://host/x.git", "file:///"),
    ],
)
def test_what_would_start_a_program_is_refused_with_the_https_address(text, fix):
    with pytest.raises(SkillwireError) as caught:
        parse_reference(text)
    assert caught.value.code == "REFERENCE"
    assert fix in caught.value.diagnostics().fix


@pytest.mark.parametrize(
    "ref",
    [
        "--upload-pack=touch", "-x", "a..b", "a b", "a\nb", "a\0b", "refs@{1}", "a//b", "a/.", "x.lock", "é", "a\\b",
        "a~1", "/x", "a" * 201,
    ],
)  # fmt: skip
def test_a_malformed_ref_is_refused(ref):
    with pytest.raises(SkillwireError) as caught:
        parse_reference(f"owner/repo@{ref}")
    assert caught.value.code in {"REFERENCE", "VERSION_RANGE"}


@pytest.mark.parametrize(
    "path", ["..", "a/../../x", "a\\b", "a\x00", ".git/config", "a/./b", "C:x", "a" * 600, "a\u202eb"]
)
def test_a_path_that_leads_elsewhere_is_refused(path):
    with pytest.raises(SkillwireError) as caught:
        parse_reference(f"owner/repo/{path}")
    assert caught.value.code.startswith("PATH_")


@pytest.mark.parametrize(
    ("origin", "path", "text"),
    [
        (HUB, "skills/a", "github.com/owner/repo/skills/a"),
        (HUB, "", "github.com/owner/repo"),
        ("https://git.example/x.git", "a", "git.example/x.git/a"),
        ("https://git.example/~u/x", "a", "git+https://git.example/~u/x//a"),
        ("path:x.git", "a", "./x.git/a"),
        ("path:../x/.git", "", "../x/.git"),
    ],
)
def test_a_skill_of_a_repository_is_named_by_what_leads_there_again(origin, path, text):
    url = origin.removeprefix("path:")
    git = GitFacts("a" * 40, path, "b" * 40)
    ref = SkillRef("a", origin, "", None, None, "git", 0.0, artifact_type="git", url=url, git=git)
    assert reference_to(ref) == text
    (again,) = parse_reference(text).lookups
    assert (again.url.removeprefix("./"), again.name or "") == (url, path)


@pytest.mark.parametrize(("version", "wanted"), [("1.2.0", "^1"), ("0.1.0", ""), ("0.1.0", "main"), (None, "")])
def test_the_bytes_that_were_read_are_named_by_their_commit_since_no_tag_need_have_the_version(version, wanted):
    git = GitFacts("a" * 40, "a", "b" * 40, wanted)
    ref = SkillRef("a", HUB, "", version, None, "git", 0.0, artifact_type="git", url=HUB, git=git)
    named = exact_reference_to(ref)
    assert named.removeprefix("github.com/") == f"owner/repo/a@{git.commit}"
    assert parse_reference(named).lookups == (Lookup(HUB, "a", source=GIT, version=git.commit),)
