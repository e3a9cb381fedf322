"""The most used installer, ``skills`` of npm, adds from ``skillwire serve`` and from a built site behind nginx."""

import json

import pytest
from tests.interop.hosting import Nginx, get, plain_server
from tests.interop.skill_samples import EXAMPLES, copy_examples, write_samples
from tests.interop.trees import executables, tree, trees

from skillwire.model.digest import Digest

pytestmark = pytest.mark.deep
INDEX = "/.well-known/agent-skills/index.json"
OLD_INDEX = "/.well-known/skills/index.json"
#: Into the folder that Codex reads, without questions.
WITHOUT_QUESTIONS = ("-a", "codex", "-y", "--copy")


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("skills")
    copy_examples(folder)
    write_samples(folder)
    return folder


@pytest.fixture(scope="module")
def origin(host, published, tmp_path_factory):
    with host(published, tmp_path_factory.mktemp("host") / "work") as publisher:
        yield publisher


def add(workplace, source, *names):
    return workplace.skills("add", source, *WITHOUT_QUESTIONS, *(("--skill", *names) if names else ()))


class TestAdd:
    def test_one_example_arrives_with_every_byte(self, origin, workplace):
        add(workplace, origin.url, "csv-profile")
        assert trees(workplace.installed) == {"csv-profile": tree(EXAMPLES / "csv-profile")}

    def test_all_skills_arrive_with_every_byte(self, origin, workplace):
        add(workplace, origin.url, "*")
        wanted = trees(origin.folder)
        # What metadata.internal marks is for those who name it.
        del wanted["internal-notes"]
        assert trees(workplace.installed) == wanted
        assert len(wanted) == len(list(EXAMPLES.glob("*/SKILL.md"))) + 7

    def test_the_executable_bit_is_lost(self, origin, workplace):
        add(workplace, origin.url, "csv-profile", "plain-name")
        assert executables(origin.folder / "csv-profile") == {"scripts/csv_profile.py"}
        assert executables(workplace.installed) == set()

    def test_an_internal_skill_is_added_by_its_name(self, origin, workplace):
        add(workplace, origin.url, "internal-notes")
        assert trees(workplace.installed) == {"internal-notes": tree(origin.folder / "internal-notes")}

    def test_the_lock_holds_the_digest_of_our_index(self, origin, workplace):
        add(workplace, origin.url, "csv-profile")
        digests = {entry["name"]: entry["digest"] for entry in json.loads(get(origin.url + INDEX).body)["skills"]}
        locked = json.loads((workplace.folder / "skills-lock.json").read_text())["skills"]
        assert locked.keys() == {"csv-profile"}
        assert locked["csv-profile"]["wellKnownDigest"] == digests["csv-profile"]

    def test_use_prints_the_instructions_without_installing(self, origin, workplace):
        printed = workplace.skills("use", origin.url, "--skill", "git-commit-messages")
        assert (EXAMPLES / "git-commit-messages" / "SKILL.md").read_text().strip() in printed
        assert not workplace.installed.exists()


class TestScopes:
    """A path behind the host is a scope to this installer: it asks below it, and never falls back to the root."""

    def test_a_skill(self, origin, workplace):
        add(workplace, f"{origin.url}/@csv-profile")
        assert trees(workplace.installed) == {"csv-profile": tree(EXAMPLES / "csv-profile")}

    def test_a_publisher(self, origin, workplace):
        add(workplace, f"{origin.url}/@local", "csv-profile", "log-triage")
        assert trees(workplace.installed).keys() == {"csv-profile", "log-triage"}

    @pytest.mark.parametrize("pasted", ["/.well-known/agent-skills", "/.well-known/agent-skills/"])
    def test_a_pasted_well_known_folder(self, origin, workplace, pasted):
        add(workplace, origin.url + pasted, "csv-profile")
        assert trees(workplace.installed) == {"csv-profile": tree(EXAMPLES / "csv-profile")}

    @pytest.mark.parametrize("pasted", [INDEX, OLD_INDEX])
    def test_a_pasted_index(self, origin, workplace, pasted):
        if isinstance(origin, Nginx):
            # A file system cannot hold a folder where it holds the file index.json.
            assert "No skills found for the scoped path" in workplace.skills(
                "add", origin.url + pasted, *WITHOUT_QUESTIONS, status=1
            )
        else:
            add(workplace, origin.url + pasted, "csv-profile")
            assert trees(workplace.installed) == {"csv-profile": tree(EXAMPLES / "csv-profile")}

    @pytest.mark.parametrize("pasted", ["/csv-profile", "/.well-known/agent-skills/csv-profile/SKILL.md"])
    def test_a_path_that_is_no_scope_is_refused(self, origin, workplace, pasted):
        printed = workplace.skills("add", origin.url + pasted, *WITHOUT_QUESTIONS, status=1)
        assert f"No skills found for the scoped path '{pasted}'" in printed
        assert not workplace.installed.exists()


class TestUpdate:
    def test_what_changed_is_replaced(self, host, tmp_path, workplace):
        folder = tmp_path / "skills"
        copy_examples(folder, "csv-profile", "log-triage")
        with host(folder, tmp_path / "work") as publisher:
            add(workplace, publisher.url, "*")
            before = trees(folder)
            assert "Updated" not in workplace.skills("update", "-y")
            assert trees(workplace.installed) == before

            # One step at a time: a server that watches may publish what lies between two.
            references = folder / "csv-profile" / "references"
            (tmp_path / "new.md").write_text("# New\n")
            (tmp_path / "new.md").rename(references / "new.md")
            publisher.publish()
            (references / "remedies.md").unlink()
            publisher.publish()
            assert "Updated csv-profile" in workplace.skills("update", "-y")
            assert trees(workplace.installed) == trees(folder) != before


class TestRequests:
    """What it asks a site for, as the log of nginx has it."""

    @pytest.fixture
    def site(self, tmp_path):
        copy_examples(tmp_path / "skills", "csv-profile", "git-commit-messages")
        with Nginx(tmp_path / "skills", tmp_path / "work") as publisher:
            yield publisher

    def test_both_indexes_and_every_artifact_even_for_one_skill(self, site, workplace):
        add(workplace, site.url, "csv-profile")
        artifacts = {f"/.well-known/agent-skills/{entry['url']}" for entry in _index(site)}
        seen = site.requests()
        assert [request.path for request in seen[:2]] == [INDEX, OLD_INDEX]
        assert {request.path for request in seen[2:]} == artifacts
        assert {(request.method, request.status) for request in seen} == {("GET", "200")}

    def test_an_update_check_says_so_and_asks_for_no_artifact(self, site, workplace):
        add(workplace, site.url, "*")
        site.requests()
        workplace.skills("update", "-y")
        assert [(request.path, request.update_check) for request in site.requests()] == [(INDEX, "1"), (OLD_INDEX, "1")]

    def test_a_redirect_of_the_index_does_not_become_the_base_of_its_urls(self, tmp_path, workplace):
        copy_examples(tmp_path / "skills", "csv-profile")
        moved = f"location = /moved{INDEX} {{ return 302 {INDEX}; }}"
        with Nginx(tmp_path / "skills", tmp_path / "work", more=moved) as site:
            said = workplace.skills("add", f"{site.url}/moved", *WITHOUT_QUESTIONS, status=1)
            (entry,) = _index(site)
            assert f"/moved/.well-known/agent-skills/{entry['url']}" in {request.path for request in site.requests()}
        assert "No skills found for the scoped path '/moved'" in said


def test_the_old_index_alone_serves_too(published, tmp_path, workplace):
    """As for a client of 0.1.0: it gets the files one by one, and there are no digests."""
    gone = "location ^~ /.well-known/agent-skills/ { return 404; }"
    with Nginx(published, tmp_path / "work", more=gone) as site:
        add(workplace, site.url, "*")
        wanted = trees(published)
    listed = {entry["name"] for entry in json.loads((site.site / OLD_INDEX[1:]).read_bytes())["skills"]}
    # One path that such a client cannot ask for would make it refuse the whole index.
    assert wanted.keys() - listed == {"odd-names"}
    for name in ("odd-names", "internal-notes"):
        del wanted[name]
    assert trees(workplace.installed) == wanted


class TestFaults:
    """A publisher's slips: this installer passes over them without a word, ours says each one."""

    @pytest.fixture
    def site(self, tmp_path):
        folder = tmp_path / "site" / ".well-known" / "agent-skills"
        faults = {
            "good": {},
            "wrong-digest": {"digest": f"sha256:{'0' * 64}"},
            "upper-digest": {"digest": f"sha256:{'A' * 64}"},
            "odd-type": {"type": "bundle"},
            "long-text": {"description": "d" * 1025},
            "Odd_Name": {},
            "0x1f": {},  # a number to YAML, as it stands there without quotes
            "absent": {"url": "elsewhere.md"},
        }
        entries = [_publish(folder, name) | fault for name, fault in faults.items()]
        schema = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
        (folder / "index.json").write_text(json.dumps({"$schema": schema, "skills": entries}))
        with plain_server(tmp_path / "site") as url:
            yield url

    def test_it_drops_seven_of_eight_and_is_content(self, site, workplace):
        said = add(workplace, site, "*")
        assert trees(workplace.installed).keys() == {"good"}
        for name in ("wrong-digest", "upper-digest", "odd-type", "long-text", "Odd_Name", "0x1f", "absent"):
            assert name not in said

    def test_ours_adds_what_is_sound_and_says_the_rest(self, site, workplace):
        said = workplace.skillwire("add", site, "--all", "--yes", "-a", "codex", status=4)
        assert trees(workplace.installed).keys() == {"good", "long-text", "0x1f"}
        for name in ("wrong-digest", "odd-type", "Odd_Name", "absent"):
            assert name in said
        assert "A" * 64 in said
        assert "1,025 characters" in said


def _publish(folder, name):
    """Write a SKILL.md; return its entry."""
    content = f"---\nname: {name}\ndescription: d\n---\n\n# Body\n".encode()
    (folder / name).mkdir(parents=True)
    (folder / name / "SKILL.md").write_bytes(content)
    url = f"{name}/SKILL.md"
    return {"name": name, "type": "skill-md", "description": "d", "url": url, "digest": Digest.of(content)}


def _index(site):
    return json.loads((site.site / INDEX[1:]).read_bytes())["skills"]
