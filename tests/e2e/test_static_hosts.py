"""What the page about static hosts shows: its files parse, its commands run, and each path gets what it needs."""

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "how-to" / "publish-static.md").read_text()
ARTIFACTS = "/.well-known/agent-skills/sha256/"


def box(title):
    [text] = re.findall(rf'^```\w+ title="{re.escape(title)}"\n(.*?)^```', PAGE, re.MULTILINE | re.DOTALL)
    return text


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """A folder with skills and what they need to be published from there."""
    folder = tmp_path_factory.mktemp("hosts")
    shutil.copytree(PROJECT / "examples" / "skills", folder / "skills")
    return folder


def sh(command, folder, **variables):
    """Run a command of the page; return what it printed."""
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "SKILLWIRE_HOME": str(folder / "home")}
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, env={**environment, **variables}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def site(workplace):
    sh("skillwire build skills -o site", workplace)
    return workplace / "site"


def paths(site):
    """Return the URL path of every file that belongs to skills."""
    files = ["/" + path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()]
    return [path for path in files if path.startswith(("/.well-known/", "/@"))]


def headers_file(site):
    """Return the rules of ``_headers``: glob, fields, in order."""
    rules: list[tuple[re.Pattern[str], dict[str, str]]] = []
    for line in (site / "_headers").read_text().splitlines():
        if line.startswith(" "):
            name, _, value = line.strip().partition(": ")
            rules[-1][1][name] = value
        else:
            rules.append((re.compile(re.escape(line).replace(r"\*", ".*")), {}))
    return rules


def vercel_file(site):
    rules = json.loads((site / "vercel.json").read_text())["headers"]
    return [
        (
            re.compile(rule["source"].replace("/.well", r"/\.well")),
            {one["key"]: one["value"] for one in rule["headers"]},
        )
        for rule in rules
    ]


@pytest.mark.parametrize("read", [headers_file, vercel_file])
def test_every_path_gets_its_headers_once(site, read):
    rules = read(site)
    for path in paths(site):
        given = [
            (name, value) for pattern, fields in rules if pattern.fullmatch(path) for name, value in fields.items()
        ]
        fields = dict(given)
        assert len(fields) == len(given), path  # some hosts would join two
        assert fields["Access-Control-Allow-Origin"] == "*"
        assert fields["X-Content-Type-Options"] == "nosniff"
        assert "sandbox" in fields["Content-Security-Policy"]
        assert ("immutable" in fields.get("Cache-Control", "")) == path.startswith(ARTIFACTS), path


def commands_of_github():
    steps = yaml.safe_load(box(".github/workflows/skills.yml"))["jobs"]["publish"]["steps"]
    [upload] = [step for step in steps if "upload-pages-artifact" in step.get("uses", "")]
    assert upload["with"] == {"path": "site", "include-hidden-files": True}
    return [step["run"] for step in steps if "run" in step], "site"


def commands_of_gitlab():
    job = yaml.safe_load(box(".gitlab-ci.yml"))["pages"]
    assert job["artifacts"]["paths"] == ["public"]
    return job["script"], "public"


def commands_of_netlify():
    build = tomllib.loads(box("netlify.toml"))["build"]
    return build["command"].split(" && "), build["publish"]


@pytest.mark.parametrize("read", [commands_of_github, commands_of_gitlab, commands_of_netlify])
def test_the_commands_of_a_sample_make_what_it_publishes(workplace, tmp_path, read):
    shutil.copytree(workplace / "skills", tmp_path / "skills")
    commands, published = read()
    for command in commands:
        if not command.startswith("python -m pip install"):
            sh(command, tmp_path)
    assert (tmp_path / published / ".well-known/agent-skills/index.json").is_file()


def test_no_archive_lies_beside_a_name_that_gitlab_would_compress(site):
    names = {path.removesuffix(".gz") for path in paths(site) if path.endswith(".gz")}
    assert names
    assert not names & set(paths(site))


def test_each_host_with_a_file_of_its_own_stands_in_the_table(site):
    rows = dict(re.findall(r"^\| \[?([\w ]+?)\]?(?:\([^)]*\))? \| `([^`]+)` \|", PAGE, re.MULTILINE))
    others = {".skillwire-manifest", "index.html"}
    assert set(rows.values()) == {path.name for path in site.iterdir() if path.is_file()} - others


def test_the_upload_to_s3_takes_each_file_once_and_indexes_last(site, tmp_path):
    (tmp_path / "aws").write_text(
        f'#!/bin/sh\nfor word in "$@"; do printf "%s\\n" "$word"; done >> {tmp_path}/log\necho >> {tmp_path}/log\n'
    )
    (tmp_path / "aws").chmod(0o755)
    path = os.pathsep.join((str(tmp_path), "/usr/bin", "/bin"))
    sh(box("upload.sh"), site.parent, BUCKET="bucket", PATH=path)
    uploaded: dict[Path, tuple[int, dict[str, str]]] = {}
    for call in (tmp_path / "log").read_text().strip().split("\n\n"):
        s3, sync, source, target, *options = call.split("\n")
        assert (s3, sync, target) == ("s3", "sync", source.replace("site", "s3://bucket", 1))
        pairs = list(zip(options[::2], options[1::2], strict=True))
        for file in (file for file in (site.parent / source).rglob("*") if file.is_file()):
            if is_taken(file.relative_to(site.parent / source).as_posix(), pairs):
                assert file not in uploaded, shlex.join(options)
                uploaded[file] = (len(uploaded), dict(pairs))
    assert {file.name for file in site.rglob("*") if file.is_file()} - {file.name for file in uploaded} == {
        ".skillwire-manifest"
    }
    indexes = [file for file in uploaded if file.name == "index.json"]
    assert min(uploaded[file][0] for file in indexes) > max(uploaded[file][0] for file in set(uploaded) - set(indexes))
    for file, (_, options) in uploaded.items():
        is_artifact = file.parent.name == "sha256"
        assert ("immutable" in options["--cache-control"]) == is_artifact
        assert not is_artifact or options["--content-type"].startswith(
            ("application/gzip", "application/zip", "text/markdown")
        )


def is_taken(path, options):
    """Whether ``aws s3 sync`` takes this file: of all filters that fit, the last one counts."""
    taken = True
    for option, pattern in options:
        if option in {"--exclude", "--include"} and fnmatch.fnmatch(path, pattern):
            taken = option == "--include"
    return taken
