"""``skillwire build``: the same bytes everywhere, read again only what changed, and the same site as ``serve``."""

import gzip
import hashlib
import json
import os
import re
import shutil
import signal
import sys
import time
from pathlib import Path
from urllib.parse import quote, unquote

import pytest
from tests.support.command import run_command
from tests.support.eventually import PATIENCE
from tests.support.forked import ForkedPython
from tests.support.publishing import ServeProcess, write_skill
from tests.unit.protocols.sharing_samples import DESCRIPTOR

from skillwire.protocols.skill_sharing.validation import validate

EXAMPLES = Path(__file__).parents[2] / "examples" / "skills"
CHILD = Path(__file__).parents[1] / "support" / "signalled_child.py"
HOST_FILES = {
    "_headers",
    ".nojekyll",
    "skillwire-nginx.conf",
    "vercel.json",
}


@pytest.fixture
def skills(tmp_path):
    write_skill(tmp_path / "skills", "notes")
    write_skill(tmp_path / "skills", "tools", {"scripts/run.sh": "#!/bin/sh\n", "references/naïve name.md": "# N\n"})
    return tmp_path / "skills"


def build(*arguments, home, expect=0):
    """Run the command; return its JSON document."""
    done = run_command("build", *arguments, "--json", env={"SKILLWIRE_HOME": str(home)})
    assert done.code == expect, done.out + done.err
    assert done.err == ""
    return done.document()


def tree(site):
    return {str(path.relative_to(site)): path.read_bytes() for path in sorted(site.rglob("*")) if path.is_file()}


def settled():
    """Wait until a change now cannot have the time of one before."""
    time.sleep(0.06)


def test_the_same_skills_give_the_same_bytes_on_another_machine_at_another_time(tmp_path):
    sites = []
    for number in range(2):
        copy = shutil.copytree(EXAMPLES, tmp_path / f"machine-{number}" / "skills")
        for path in copy.rglob("*"):
            os.utime(path, (number * 1e8, number * 1e8))
        build(copy, "-o", tmp_path / f"site-{number}", home=tmp_path / f"home-{number}")
        sites.append(tree(tmp_path / f"site-{number}"))
    assert sites[0] == sites[1]
    assert len(sites[0]) > 100


def test_every_file_of_a_site_is_answered_by_serve_with_the_same_bytes(skills, tmp_path):
    site = tmp_path / "site"
    build(skills, "-o", site, "--publisher", "acme", "--no-pages", home=tmp_path / "home")
    files = tree(site)
    own = HOST_FILES | {".skillwire-manifest"}
    assert own < files.keys()
    with ServeProcess(skills, "--publisher", "acme", "--no-access-log", home=tmp_path / "other") as server:
        for path in files.keys() - own:
            answer = server.get("/" + quote(path))
            assert (answer.status, answer.body) == (200, files[path]), path


def test_a_second_build_reads_and_writes_nothing(skills, tmp_path):
    settled()
    first = build(skills, "-o", tmp_path / "site", home=tmp_path / "home")
    assert (first["skills"], first["read"], first["unchanged"]) == (2, 2, 0)
    assert first["changes"]["written"] == len(tree(tmp_path / "site")) - 1  # all but the manifest
    before = {path: path.stat() for path in (tmp_path / "site").rglob("*")}
    second = build(skills, "-o", tmp_path / "site", home=tmp_path / "home")
    assert (second["skills"], second["read"], second["unchanged"]) == (2, 0, 2)
    assert second["changes"] == {"written": 0, "removed": 0}
    assert {path: path.stat() for path in (tmp_path / "site").rglob("*")} == before


def test_after_a_change_only_that_skill_is_read_and_its_old_files_are_gone(skills, tmp_path):
    settled()
    site = tmp_path / "site"
    build(skills, "-o", site, home=tmp_path / "home")
    before = tree(site)
    kept = (site / ".well-known" / "skills" / "notes" / "SKILL.md").stat()
    write_skill(skills, "tools", {"scripts/new.sh": "#!/bin/sh\n"}, description="Changed.")
    (skills / "tools" / "scripts" / "run.sh").unlink()
    report = build(skills, "-o", site, home=tmp_path / "home")
    assert (report["read"], report["unchanged"]) == (1, 1)
    assert (site / ".well-known" / "skills" / "notes" / "SKILL.md").stat() == kept
    after = tree(site)
    build(skills, "-o", tmp_path / "fresh", home=tmp_path / "other")
    assert after == tree(tmp_path / "fresh")
    gone = before.keys() - after.keys()
    assert {path.rpartition("/")[2] for path in gone if "sha256" not in path} == {"run.sh", "run.sh.html"}
    assert len([path for path in gone if "sha256" in path]) == 1


def test_a_skill_that_is_gone_leaves_the_site(skills, tmp_path):
    build(skills, "-o", tmp_path / "site", home=tmp_path / "home")
    shutil.rmtree(skills / "tools")
    report = build(skills, "-o", tmp_path / "site", home=tmp_path / "home")
    assert report["changes"]["removed"] > 0
    assert not [path for path in tree(tmp_path / "site") if "tools" in path]


@pytest.mark.parametrize(
    "lost", ["home", ".well-known/agent-skills/tools", "@notes", ".well-known/agent-skills/sha256"]
)
def test_what_was_lost_is_made_again(skills, tmp_path, lost):
    site = tmp_path / "site"
    settled()
    build(skills, "-o", site, home=tmp_path / "home")
    before = tree(site)
    shutil.rmtree(tmp_path / lost if lost == "home" else site / lost)
    build(skills, "-o", site, home=tmp_path / "home")
    assert tree(site) == before


def test_no_cache_reads_everything_and_mends_every_file(skills, tmp_path):
    site = tmp_path / "site"
    settled()
    build(skills, "-o", site, home=tmp_path / "home")
    before = tree(site)
    damaged = site / ".well-known" / "skills" / "tools" / "SKILL.md"
    damaged.unlink()
    damaged.write_text("damaged")
    assert build(skills, "-o", site, home=tmp_path / "home")["changes"]["written"] == 0
    report = build(skills, "-o", site, "--no-cache", home=tmp_path / "home")
    assert (report["read"], report["changes"]["written"]) == (2, 1)
    assert tree(site) == before


def test_a_folder_of_someone_else_is_not_built_into_unless_forced(skills, tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.html").write_text("<h1>Mine</h1>")
    error = build(skills, "-o", site, home=tmp_path / "home", expect=6)["error"]
    assert error["code"] == "SITE_FOREIGN"
    assert [path.name for path in site.iterdir()] == ["index.html"]
    build(skills, "-o", site, "--force", "--no-pages", home=tmp_path / "home")
    shutil.rmtree(skills / "tools")
    assert "index.html" in build(skills, "-o", site, home=tmp_path / "home", expect=6)["error"]["message"]
    build(skills, "-o", site, "--no-pages", home=tmp_path / "home")
    assert (site / "index.html").read_text() == "<h1>Mine</h1>"


def test_a_header_file_of_someone_else_is_not_overwritten(skills, tmp_path):
    site = tmp_path / "site"
    build(skills, "-o", site, "--host-files", "none", home=tmp_path / "home")
    assert not HOST_FILES & tree(site).keys()
    (site / "_headers").write_text("mine")
    error = build(skills, "-o", site, home=tmp_path / "home", expect=6)["error"]
    assert error["place"]["source"] == str(site / "_headers")
    assert (site / "_headers").read_text() == "mine"
    assert HOST_FILES & tree(site).keys() == {"_headers"}


@pytest.mark.parametrize(
    ("hosts", "files"),
    [
        (["netlify"], {"_headers"}),
        (["cloudflare", "github"], {"_headers", ".nojekyll"}),
        (["vercel", "nginx"], {"vercel.json", "skillwire-nginx.conf"}),
        (["all"], HOST_FILES),
    ],
)
def test_header_files_are_those_of_the_chosen_hosts(skills, tmp_path, hosts, files):
    options = [word for host in hosts for word in ("--host-files", host)]
    build(skills, "-o", tmp_path / "site", *options, home=tmp_path / "home")
    assert HOST_FILES & tree(tmp_path / "site").keys() == files


def test_header_files_can_be_left_behind_by_a_later_build(skills, tmp_path):
    build(skills, "-o", tmp_path / "site", home=tmp_path / "home")
    build(skills, "-o", tmp_path / "site", "--host-files", "none", home=tmp_path / "home")
    assert not HOST_FILES & tree(tmp_path / "site").keys()


def test_the_files_for_hosts_are_what_those_read(skills, tmp_path):
    build(skills, "-o", tmp_path / "site", home=tmp_path / "home")
    files = tree(tmp_path / "site")
    assert json.loads(files["vercel.json"])
    rules: dict[str, dict[str, str]] = {}
    for line in files["_headers"].decode().splitlines():
        if line.startswith("/"):
            rule = rules.setdefault(line, {})
        else:
            name, _, value = line.strip().partition(": ")
            rule[name] = value
    assert rules.keys() == {"/.well-known/*", "/@*", "/.well-known/agent-skills/sha256/*", "/.well-known/skill-sharing"}
    assert rules["/.well-known/agent-skills/sha256/*"] == {"Cache-Control": "public, max-age=31536000, immutable"}
    assert rules["/.well-known/*"] == rules["/@*"]
    assert "Cache-Control" not in rules["/.well-known/*"]  # a host would join the two
    assert rules["/.well-known/*"]["Access-Control-Allow-Origin"] == "*"


def test_broken_skills_are_all_said_and_nothing_is_written(skills, tmp_path):
    for name in ("bad-one", "bad-two"):
        (skills / name).mkdir()
        (skills / name / "SKILL.md").write_text(f"---\nname: {name}\n---\n")
    error = build(skills, "-o", tmp_path / "site", home=tmp_path / "home", expect=1)["error"]
    assert error["code"] == "SKILLS_BROKEN"
    errors = [finding for finding in error["details"]["findings"] if finding["level"] == "error"]
    assert {Path(finding["place"]["source"]).parent.name for finding in errors} == {"bad-one", "bad-two"}
    assert list((tmp_path / "site").iterdir()) == []
    report = build(skills, "-o", tmp_path / "site", "--skip-broken", home=tmp_path / "home")
    assert report["skills"] == 2
    assert errors == [finding for finding in report["findings"] if finding["level"] == "error"]


def test_a_good_site_is_not_replaced_by_one_that_shows_nobody_anything(skills, tmp_path):
    site, home = tmp_path / "site", tmp_path / "home"
    build(skills, "-o", site, home=home)
    before = tree(site)
    for name in ("notes", "tools"):
        (skills / name / "SKILL.md").write_text("broken")
    error = build(skills, "-o", site, "--skip-broken", home=home, expect=1)["error"]
    assert (error["code"], error["message"]) == (
        "SKILLS_BROKEN",
        "2 errors, and no skill is left to publish; nothing was written",
    )
    assert [one["code"] for one in error["details"]["findings"] if one["level"] == "error"] == ["FRONTMATTER"] * 2
    for name in ("notes", "tools"):
        write_skill(skills, name, {"skill.toml": 'access = "private"\n'})
    error = build(skills, "-o", site, home=home, expect=3)["error"]
    assert (error["code"], "--allow-empty" in error["fix"]) == ("SKILL_NOT_FOUND", True)
    build(skills, "-o", site, "--dry-run", home=home, expect=3)
    assert tree(site) == before
    build(skills, "-o", site, "--allow-empty", home=home)
    assert json.loads((site / ".well-known/agent-skills/index.json").read_bytes())["skills"] == []


@pytest.mark.parametrize("site", ["skills/notes/site", "skills", ".", "skills/notes", "link/out"])
def test_skills_and_site_do_not_lie_within_each_other(skills, tmp_path, site):
    (tmp_path / "link").symlink_to(skills / "tools")
    before = tree(tmp_path)
    for option in ("--force", "--dry-run"):
        error = build(skills, "-o", tmp_path / site, option, home=tmp_path / "home", expect=2)["error"]
        assert error["code"] == "SITE_OVERLAP"
    assert tree(tmp_path) == before


def test_a_site_may_lie_beside_skills_in_one_folder(skills, tmp_path):
    for _ in range(2):
        report = build(tmp_path, "-o", tmp_path / "site", home=tmp_path / "home")
        assert report["skills"] == 2
    assert build(skills, "-o", skills / "site", home=tmp_path / "home")["skills"] == 2


def test_two_skills_of_one_name_are_an_error_that_names_both(skills, tmp_path):
    other = write_skill(tmp_path / "more", "notes", description="Another.")
    error = build(skills, tmp_path / "more", "-o", tmp_path / "site", home=tmp_path / "home", expect=1)["error"]
    [finding] = [finding for finding in error["details"]["findings"] if finding["level"] == "error"]
    assert finding["code"] == "IDENTIFIER_COLLISION"
    assert str(other) in finding["message"]
    assert str(skills / "notes") in finding["message"]
    report = build(skills, tmp_path / "more", "-o", tmp_path / "site", "--skip-broken", home=tmp_path / "home")
    assert report["skills"] == 2


def test_of_two_skills_that_share_an_identifier_the_second_is_left_out_of_the_site(skills, tmp_path):
    write_skill(skills, "zebra", {"skill.toml": 'id = "local/notes"\n'})
    build(skills, "-o", tmp_path / "site", home=tmp_path / "home", expect=1)
    report = build(skills, "-o", tmp_path / "site", "--skip-broken", home=tmp_path / "home")
    assert report["skills"] == 2
    assert not [path for path in tree(tmp_path / "site") if "zebra" in path]


def test_what_not_everyone_may_see_is_not_in_the_site(skills, tmp_path):
    write_skill(skills, "closed", {"skill.toml": 'access = "private"\n', "secret.md": "# Secret\n"})
    build(skills, "-o", tmp_path / "site", home=tmp_path / "home")
    files = {path: content for path, content in tree(tmp_path / "site").items() if not path.startswith("assets/")}
    assert "index.html" in files
    assert not [path for path, content in files.items() if b"closed" in content or "closed" in path]
    write_skill(skills, "tools", {"skill.toml": 'access = "private"\n'})
    build(skills, "-o", tmp_path / "site", home=tmp_path / "home")
    assert not [path for path in tree(tmp_path / "site") if "tools" in path]


def test_a_dry_run_writes_nothing(skills, tmp_path):
    report = build(skills, "-o", tmp_path / "site", "--dry-run", home=tmp_path / "home")
    assert (report["skills"], report["read"], report["changes"]) == (2, 2, None)
    assert not (tmp_path / "site").exists()
    assert not (tmp_path / "home").exists()


def test_a_base_url_stands_before_the_urls_of_every_index(skills, tmp_path):
    build(skills, "-o", tmp_path / "site", "--base-url", "https://cdn.example/x/", home=tmp_path / "home")
    indexes = [content for path, content in tree(tmp_path / "site").items() if path.endswith("agent-skills/index.json")]
    assert len(indexes) == 5  # the site, a pasted URL, the publisher, two skills
    for index in indexes:
        for entry in json.loads(index)["skills"]:
            assert entry["url"].startswith("https://cdn.example/x/.well-known/agent-skills/sha256/")
    build(skills, "-o", tmp_path / "site", home=tmp_path / "home")
    assert b"cdn.example" not in b"".join(tree(tmp_path / "site").values())


def test_a_build_that_is_killed_leaves_the_old_site_whole(tmp_path):
    for number in range(150):
        write_skill(tmp_path / "skills", f"skill-{number}", {"a.md": f"# {number}\n"})
    site = tmp_path / "site"
    build(tmp_path / "skills", "-o", site, home=tmp_path / "home")
    before = tree(site)
    for number in range(150):
        write_skill(tmp_path / "skills", f"skill-{number}", description="Changed.")
    before_first_rename = [str(CHILD), str(int(signal.SIGKILL)), "1", "before"]
    command = [sys.executable, *before_first_rename, "build", str(tmp_path / "skills"), "-o", str(site)]
    process = ForkedPython(command, env={**os.environ, "SKILLWIRE_HOME": str(tmp_path / "home")})
    assert process.wait(PATIENCE) == -signal.SIGKILL
    assert list(site.glob(".skillwire-stage/*/@*"))
    left = {path: content for path, content in tree(site).items() if not path.startswith(".skillwire-stage")}
    assert left == before
    build(tmp_path / "skills", "-o", site, home=tmp_path / "home")
    fresh = tmp_path / "fresh"
    build(tmp_path / "skills", "-o", fresh, home=tmp_path / "other")
    assert tree(site) == tree(fresh)


def test_what_it_says_to_people(skills, tmp_path):
    done = run_command("build", skills, "-o", "site", cwd=tmp_path, env={"SKILLWIRE_HOME": str(tmp_path / "home")})
    assert done.code == 0
    written = len(tree(tmp_path / "site")) - 1
    assert done.out == f"built 2 skills into site (2 read, 0 unchanged; {written} files written, 0 removed)\n"
    assert "warning[SCRIPT_NOT_EXECUTABLE]: the executable bit is missing" in done.err


def test_it_counts_what_is_written_and_apart_what_is_not_public(skills, tmp_path):
    for name, access in (("one", "private"), ("two", "restricted")):
        write_skill(skills, name, {"skill.toml": f'access = "{access}"\n'})
    url = ["--base-url", "https://skills.example.com"]
    told = build(skills, "-o", tmp_path / "site", *url, home=tmp_path / "home")
    assert (told["skills"], told["not_public"], told["read"]) == (2, 2, 4)
    index = json.loads((tmp_path / "site" / ".well-known" / "skill-sharing").read_bytes())
    assert [entry["id"] for entry in index["skills"]] == ["local/notes", "local/tools"]
    for more, end in (
        ([], "0 removed); 2 not published: not public\n"),
        (["--dry-run"], "public; nothing was written\n"),
    ):
        environment = {"SKILLWIRE_HOME": str(tmp_path / "home")}
        done = run_command("build", skills, "-o", tmp_path / "site", *url, *more, env=environment)
        assert done.code == 0
        assert "2 skills into" in done.out
        assert done.out.endswith(end)


@pytest.mark.parametrize(
    ("arguments", "code", "status"),
    [
        (["--publisher", "a/b"], "PUBLISHER_FORM", 2),
        (["--base-url", "nowhere"], "URL", 1),
        (["--host-files", "none", "--host-files", "nginx"], "USAGE", 2),
    ],
)
def test_what_cannot_be_asked_for_is_said_before_anything_is_written(skills, tmp_path, arguments, code, status):
    error = build(skills, "-o", tmp_path / "site", *arguments, home=tmp_path / "home", expect=status)["error"]
    assert error["code"] == code
    assert not (tmp_path / "site").exists()


def test_artifacts_are_what_the_index_promises(skills, tmp_path):
    build(skills, "-o", tmp_path / "site", home=tmp_path / "home")
    well_known = tmp_path / "site" / ".well-known" / "agent-skills"
    for entry in json.loads((well_known / "index.json").read_bytes())["skills"]:
        artifact = (well_known / entry["url"]).read_bytes()
        assert f"sha256:{hashlib.sha256(artifact).hexdigest()}" == entry["digest"]
        if entry["type"] == "archive":
            assert (well_known / f"{entry['name']}.tar.gz").read_bytes() == artifact
            assert gzip.decompress(artifact)


def test_a_folder_without_skills_does_not_empty_a_site(tmp_path):
    (tmp_path / "nothing").mkdir()
    (tmp_path / "site").mkdir()
    command = ("build", "nothing", "-o", "site")
    refused = run_command(*command, cwd=tmp_path)
    assert refused.code == 3
    assert "--allow-empty" in refused.err
    assert not any((tmp_path / "site").iterdir())
    assert run_command(*command, "--allow-empty", cwd=tmp_path).code == 0
    assert (tmp_path / "site/.well-known/agent-skills/index.json").is_file()


def test_site_with_a_base_url_speaks_skill_sharing_too(tmp_path):
    write_skill(tmp_path / "skills", "notes")
    descriptor = json.dumps({**DESCRIPTOR, "id": "acme/forecast"})
    write_skill(tmp_path / "skills", "forecast", {"descriptor.json": descriptor})
    write_skill(tmp_path / "skills", "hidden", {"skill.toml": 'access = "restricted"\n'})
    site, home = tmp_path / "site", tmp_path / "home"
    arguments = [tmp_path / "skills", "-o", site, "--publisher", "acme"]
    build(*arguments, "--base-url", "https://example.com/a", home=home)
    index = json.loads((site / ".well-known/skill-sharing").read_bytes())
    assert [skill["id"] for skill in index["skills"]] == ["acme/forecast", "acme/notes"]
    for entry in index["skills"]:
        path = site / entry["descriptor_url"].removeprefix("https://example.com/a/")
        assert validate(path.read_bytes()).valid
    assert (site / "skills/forecast.json").read_text() == descriptor
    before = {path: path.stat().st_mtime_ns for path in (site / "skills").iterdir()}
    build(*arguments, "--base-url", "https://example.com/a", home=home)
    assert {path: path.stat().st_mtime_ns for path in (site / "skills").iterdir()} == before
    build(*arguments, home=home)
    assert not [*(site / "skills").glob("*.json")]
    assert not (site / ".well-known/skill-sharing").exists()


def test_the_pages_of_a_site_link_to_one_another_also_below_a_path(skills, tmp_path):
    action = 'kind = "action"\n[runtime]\nlanguage = "python"\nentrypoint = "main.py"\n[inputs.city]\nrequired = true\n'
    action += '[inputs.unit]\ndefault = "C"\ndescription = "The unit"\n'
    write_skill(skills, "forecast", {"skill.toml": action, "main.py": "def main(args): ...\n"})
    site = tmp_path / "site"
    build(skills, "-o", site, home=tmp_path / "home")
    linked = set()
    for page in [site / "index.html", *(site / "skills").rglob("*.html")]:
        text = page.read_text()
        assert "Content-Security-Policy" in text
        for href in re.findall(r'(?:href|src)="([^"#:]+)"', text):
            target = (page.parent / unquote(href)).resolve()
            target = target / "index.html" if target.is_dir() else target
            assert target.is_file(), (page, href)
            linked.add(str(target.relative_to(site)))
    ends = ("", "/call", "/files", "/versions", "/security", "/files/main.py")
    parts = {f"skills/forecast{end}.html" for end in ends}
    assert parts | {"skills/tools/files/references/naïve name.md.html"} <= linked
    call = (site / "skills/forecast/call.html").read_text()
    assert "This site is static, so calls are not possible here." in call
    assert "<code>skillwire serve FOLDER</code>" in call
    assert "<form" not in call
    assert "The unit. Default: &#34;C&#34;." in call
    assert "skillwire call" not in call
    assert "https://example.com/a/.well-known" not in call
    build(skills, "-o", site, "--base-url", "https://example.com/a", home=tmp_path / "home")
    assert "skillwire add example.com/a/forecast" in (site / "skills/forecast.html").read_text()
    build(skills, "-o", site, "--no-pages", home=tmp_path / "home")
    assert not [path for path in tree(site) if path.startswith(("skills/", "assets/", "index"))]


def test_pages_are_made_again_when_what_they_are_made_of_changed(skills, tmp_path):
    settled()
    site = tmp_path / "site"
    build(skills, "-o", site, home=tmp_path / "home")
    manifest = site / ".skillwire-manifest"
    manifest.write_text(re.sub(r"(?m)^pages\t\w+", "pages\tolder", manifest.read_text()))
    report = build(skills, "-o", site, home=tmp_path / "home")
    assert (report["read"], report["unchanged"]) == (2, 0)


def test_pages_show_the_site_of_a_configuration_and_are_made_again_when_it_changes(skills, tmp_path):
    settled()
    site, config, home = tmp_path / "site", tmp_path / "server.toml", tmp_path / "home"
    picture = b"\x89PNG\r\n\x1a\n-logo"
    (tmp_path / "logo.png").write_bytes(picture)
    table = '[site]\ntitle = "A <b> C"\nintro = "**Ours**"\nlogo = "logo.png"\ncontact = "a@example.com"\n'
    config.write_text(table + 'featured = ["tools", "absent"]\n')
    findings = build(skills, "-o", site, "--config", config, home=home)["findings"]
    assert "featured names absent, which is not published" in [one["message"] for one in findings]
    first, tools = (site / "index.html").read_text(), (site / "skills" / "tools.html").read_text()
    assert "<h1>A &lt;b&gt; C</h1>" in first
    assert "<strong>Ours</strong>" in first
    assert '<h2 id="featured">Featured</h2>\n<ul>\n<li><a href="./skills/tools.html">tools</a>' in first
    (name,) = re.findall(r'src="./(assets/logo\.[0-9a-f]{16}\.png)"', first)
    assert (site / name).read_bytes() == picture
    assert f'src="../{name}"' in tools
    assert '<a href="mailto:a@example.com">' in tools
    settled()
    assert build(skills, "-o", site, "--config", config, home=home)["unchanged"] == 2
    assert build(skills, "-o", site, home=home)["read"] == 2
    assert not (site / name).exists()
    assert "A &lt;b&gt; C" not in (site / "skills" / "tools.html").read_text()
