"""References, as users type and paste them."""

from __future__ import annotations

import pytest

from skillwire.errors import SkillwireError, UsageError
from skillwire.model.ref import GitFacts, RpcFacts, SkillRef
from skillwire.resolver.references import exact_reference_to, parse_reference, parse_source, reference_to
from skillwire.resolver.sources import GIT, Lookup

AGENT_SKILLS = "/.well-known/agent-skills/index.json"
OLD = "/.well-known/skills/index.json"


def lookups(text):
    return [(lookup.url, lookup.old_url, lookup.name) for lookup in parse_reference(text).lookups]


@pytest.mark.parametrize("text", ["example.com", "example.com/", "https://example.com", "https://example.com/"])
def test_an_origin_means_all_of_its_index(text):
    assert lookups(text) == [(f"https://example.com{AGENT_SKILLS}", f"https://example.com{OLD}", None)]


@pytest.mark.parametrize("text", ["example.com/code-review", "https://example.com/code-review/"])
def test_a_path_of_one_part_is_a_name_first_and_a_scope_second(text):
    assert lookups(text) == [
        (f"https://example.com{AGENT_SKILLS}", f"https://example.com{OLD}", "code-review"),
        (f"https://example.com/code-review{AGENT_SKILLS}", f"https://example.com/code-review{OLD}", None),
    ]


def test_a_longer_path_is_a_scope_and_a_name():
    assert [(url, name) for url, _, name in lookups("example.com/docs/a")] == [
        (f"https://example.com/docs{AGENT_SKILLS}", "a"),
        (f"https://example.com/@docs{AGENT_SKILLS}", "a"),
        (f"https://example.com/docs/a{AGENT_SKILLS}", None),
    ]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/.well-known/agent-skills", None),
        ("/.well-known/agent-skills/", None),
        ("/.well-known/agent-skills/index.json", None),
        ("/.well-known/agent-skills/code-review", "code-review"),
        ("/.well-known/agent-skills/code-review/SKILL.md", "code-review"),
        ("/.well-known/agent-skills/code-review.tar.gz", "code-review"),
        ("/.well-known/agent-skills/code-review.zip", "code-review"),
    ],
)
def test_pasted_well_known_addresses(path, name):
    assert lookups(f"https://example.com{path}") == [
        (f"https://example.com{AGENT_SKILLS}", f"https://example.com{OLD}", name)
    ]


def test_a_pasted_old_address_is_asked_for_digests_first():
    assert lookups("https://example.com/.well-known/skills/a/SKILL.md") == [
        (f"https://example.com{AGENT_SKILLS}", f"https://example.com{OLD}", "a")
    ]


def test_a_scope_before_the_well_known_part_is_kept():
    url = "https://example.com/@a/.well-known/agent-skills/index.json"
    assert lookups(url) == [(url, f"https://example.com/@a{OLD}", None)]


@pytest.mark.parametrize("after", ["", "/", "/files/SKILL.md", "/files/a/b.json", "/files/skills/x/index.json"])
@pytest.mark.parametrize("before", ["", "/team"])
def test_the_address_of_a_page_is_looked_up_as_its_skill_after_all_else(before, after):
    text = f"https://example.com{before}/skills/code-review{after}"
    assert lookups(text)[-1] == (
        f"https://example.com{before}{AGENT_SKILLS}", f"https://example.com{before}{OLD}", "code-review"
    )  # fmt: skip
    assert lookups(text)[0][2] != "code-review" or "/skills/" in lookups(text)[0][0]
    assert parse_reference(text).fallback[-1].name == "code-review"


@pytest.mark.parametrize("path", ["/skills", "/skills/", "/my-skills/a", "/skills/A", "/skills/a/b", "/skills/a.json"])
def test_other_paths_are_no_page(path):
    assert ("https://example.com" + AGENT_SKILLS, "a") not in [
        (url, name) for url, _, name in lookups("https://example.com" + path)
    ]


def test_an_index_elsewhere_is_asked_as_it_is():
    assert lookups("https://example.com/skills/index.json") == [("https://example.com/skills/index.json", None, None)]


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("localhost:8000/a", "http://localhost:8000"),
        ("127.0.0.1:8000/a", "http://127.0.0.1:8000"),
        ("[::1]:8000/a", "http://[::1]:8000"),
        ("192.168.1.5:8000/a", "http://192.168.1.5:8000"),
        ("example.com:8443/a", "https://example.com:8443"),
        ("93.184.216.34/a", "https://93.184.216.34"),
    ],
)
def test_the_scheme_is_http_only_where_nobody_is_on_the_way(text, origin):
    assert lookups(text)[0][0] == origin + AGENT_SKILLS


@pytest.mark.parametrize("text", ["./a", "../a", "/a/b", "~/a", "."])
def test_a_path_is_a_folder(text):
    assert parse_reference(text).path == text


def test_a_bare_name_waits_for_the_sources():
    assert parse_reference("code-review").name == "code-review"


@pytest.mark.parametrize(
    "text",
    ["", "A", "ftp://example.com/a", "https://", "https://user:pw@example.com/a", "a b", "exa\x00mple.com"],
)
def test_what_cannot_be_read_says_what_to_write_instead(text):
    with pytest.raises(UsageError) as caught:
        parse_reference(text)
    assert caught.value.code == "REFERENCE"
    assert caught.value.diagnostics().fix


def test_a_source_is_an_origin_or_a_scope():
    assert parse_source("example.com").url == f"https://example.com{AGENT_SKILLS}"
    assert parse_source("example.com/team").url == f"https://example.com/team{AGENT_SKILLS}"
    with pytest.raises(UsageError):
        parse_source("./folder")


@pytest.mark.parametrize(
    ("text", "endpoint", "name"),
    [
        ("https://example.com/rpc#ns.leads.sync", "https://example.com/rpc", "ns.leads.sync"),
        ("example.com/rpc#ns.leads.sync", "https://example.com/rpc", "ns.leads.sync"),
        ("127.0.0.1:8000/rpc#sync", "http://127.0.0.1:8000/rpc", "sync"),
        ("https://example.com/team/json-rpc#sync", "https://example.com/team/json-rpc", "sync"),
        ("https://example.com/v1/skills?team=a#ns.sync", "https://example.com/v1/skills?team=a", "ns.sync"),
        ("example.com#ns.sync", "https://example.com/", "ns.sync"),
        ("example.com/rpc#ns.", "https://example.com/rpc", "ns."),
        ("example.com/rpc#", "https://example.com/rpc", None),
        ("example.com/api#.", "https://example.com/api", None),
    ],
)
def test_what_stands_behind_the_hash_of_an_endpoint_is_a_skill(text, endpoint, name):
    (lookup,) = parse_reference(text).lookups
    assert (lookup.url, lookup.source, lookup.name) == (endpoint, "skills-rpc", name)
    assert lookup.base == endpoint
    assert parse_source(text).url == endpoint


@pytest.mark.parametrize(
    "text",
    [
        "https://example.com/code-review#usage",
        "https://example.com/skills/code-review#a.b",
        "https://example.com/skills/code-review/files/rpc#a.b",
        "https://example.com/.well-known/agent-skills/index.json#a.b",
        "https://example.com/weather.json#a.b",
        "https://example.com/docs#not.A.name",
    ],
)
def test_what_stands_behind_the_hash_of_another_address_means_something_to_a_browser(text):
    plain = text.partition("#")[0]
    assert parse_reference(text)._replace(text="") == parse_reference(plain)._replace(text="")


@pytest.mark.parametrize("name", ["A.b", "a..b", "a b", "../x", ".a", "a" * 300, "%61.b"])
def test_what_cannot_name_a_skill_of_an_endpoint_is_refused(name):
    with pytest.raises(UsageError) as caught:
        parse_reference(f"example.com/rpc#{name}")
    assert caught.value.code == "REFERENCE"


def test_an_address_that_ends_in_rpc_may_be_an_endpoint_when_it_is_nothing_else():
    reference = parse_reference("example.com/rpc")
    assert reference.lookups[0].name == "rpc"
    assert [lookup.source for lookup in reference.fallback] == ["skill-sharing", "skills-rpc"]


@pytest.mark.parametrize("endpoint", ["https://example.com/rpc", "http://example.com/rpc", "http://127.0.0.1:1/a/rpc"])
def test_the_reference_to_a_skill_of_an_endpoint_can_be_read(endpoint):
    ref = SkillRef("ns.sync", endpoint, "", None, None, "skills-rpc", 0.0, rpc=RpcFacts(endpoint, "", ""))
    (lookup,) = parse_reference(reference_to(ref)).lookups
    assert (lookup.url, lookup.name) == (endpoint, "ns.sync")


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
