"""What authors use beside us: Taplo with our schema, pre-commit with our hook, and our GitHub Action."""

import json
import shutil
from pathlib import Path

import pytest
import yaml
from tests.interop.peers import find_peer, run, skillwire

PROJECT = Path(__file__).parents[2]
HOOKS = PROJECT / ".pre-commit-hooks.yaml"
ACTION = PROJECT / "action.yml"
GOOD = "---\nname: {name}\ndescription: d\nmetadata:\n  version: '1.0.0'\n---\n# B\n"
_GIT = {
    "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_AUTHOR_NAME": "a", "GIT_COMMITTER_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_EMAIL": "a@example.com",
}  # fmt: skip


@pytest.fixture
def ours(tmp_path):
    """Return the variables with which a program finds ours and its Python first."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, command in {"skillwire": skillwire(), "python": ["echo", "python"]}.items():
        (folder / name).write_text(f'#!/bin/sh\nexec {" ".join(command)} "$@"\n')
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin", **_GIT}


def test_taplo_accepts_the_examples_and_a_new_manifest_by_its_first_lines(tmp_path):
    taplo = find_peer("taplo")
    schema = PROJECT / "docs" / "reference" / "schemas" / "skill-toml.json"
    examples = [str(path) for path in PROJECT.glob("examples/**/skill.toml")]
    run([*taplo, "lint", "--schema", schema.as_uri(), *examples], cwd=tmp_path, home=tmp_path)
    run(skillwire("init", "demo", "--script", "--manifest"), cwd=tmp_path, home=tmp_path)
    manifest = tmp_path / "demo" / "skill.toml"
    command, line, text = manifest.read_text().split("\n", 2)
    printed = run(skillwire("explain", "--schema", "skill.toml"), cwd=tmp_path, home=tmp_path)
    assert command.endswith(": skillwire explain --schema skill.toml > ../skill-toml.json")
    (tmp_path / "skill-toml.json").write_text(printed)
    manifest.write_text(f"{line.partition(': ')[2]}\n{text}")
    run([*taplo, "lint", str(manifest)], cwd=tmp_path, home=tmp_path)
    manifest.write_text(manifest.read_text().replace('"action"', '"actoin"'))
    refused = run([*taplo, "lint", str(manifest)], cwd=tmp_path, home=tmp_path, status=1)
    assert '"actoin" is not one of ["instruction","action"]' in refused


def test_a_new_manifest_names_the_published_schema(tmp_path):
    where = {"SKILLWIRE_DOCS_URL": "https://docs.example.com/skillwire/"}
    run(skillwire("init", "demo", "--manifest"), cwd=tmp_path, home=tmp_path, variables=where)
    line = (tmp_path / "demo" / "skill.toml").read_text().partition("\n")[0]
    assert line == "#:schema https://docs.example.com/skillwire/reference/schemas/skill-toml.json"


def test_pre_commit_checks_the_skills_of_changed_files(tmp_path, ours):
    git, pre_commit = find_peer("git"), find_peer("pre-commit")
    hooks, project = tmp_path / "hooks", tmp_path / "project"
    for folder in (hooks, project):
        folder.mkdir()
        run([*git, "init", "--quiet"], cwd=folder, home=tmp_path, variables=ours)
    shutil.copy(HOOKS, hooks)
    run([*git, "add", "."], cwd=hooks, home=tmp_path, variables=ours)
    run([*git, "commit", "--quiet", "-m", "hooks"], cwd=hooks, home=tmp_path, variables=ours)
    revision = run([*git, "rev-parse", "HEAD"], cwd=hooks, home=tmp_path, variables=ours).strip()
    # The environment that pre-commit makes for language: python would need a package index; ours is on the path.
    hook = {"id": "skillwire-check", "language": "system"}
    repos = [{"repo": str(hooks), "rev": revision, "hooks": [hook]}]
    (project / ".pre-commit-config.yaml").write_text(json.dumps({"repos": repos}))
    for name in ("good", "bad"):
        (project / "skills" / name).mkdir(parents=True)
        (project / "skills" / name / "SKILL.md").write_text(GOOD.format(name="good"))
    (project / "README.md").write_text("# Skills\n")
    commands = {"skills/good/SKILL.md": 0, "README.md": 0, "skills/bad/SKILL.md": 1}
    for path, status in commands.items():
        run([*git, "add", path, ".pre-commit-config.yaml"], cwd=project, home=tmp_path, variables=ours)
        printed = run([*pre_commit, "run"], cwd=project, home=tmp_path, status=status, variables=ours)
    assert "error[NAME_FOLDER]: the skill is named 'good', its folder 'bad'" in printed
    assert "checked 2 skills: 1 error" in printed


def test_the_action_fits_the_schema_of_actions(tmp_path):
    command = [*find_peer("check-jsonschema"), "--builtin-schema", "vendor.github-actions", str(ACTION)]
    run(command, cwd=tmp_path, home=tmp_path)


def _steps():
    return {step["name"]: step for step in yaml.safe_load(ACTION.read_text())["runs"]["steps"] if "run" in step}


def test_the_action_installs_its_own_version_or_the_named_package(tmp_path, ours):
    step = _steps()["Install skillwire"]
    for package, expected in {"": "/action", "skillwire==0.1.0": "skillwire==0.1.0"}.items():
        variables = {**ours, "PACKAGE": package, "GITHUB_ACTION_PATH": "/action"}
        printed = run(["sh", "-e", "-c", step["run"]], cwd=tmp_path, home=tmp_path, variables=variables)
        assert printed.split()[:4] + printed.split()[-1:] == ["python", "-m", "pip", "install", expected]


@pytest.mark.parametrize(("name", "status"), [("good", 0), ("bad", 1)])
def test_the_action_checks_and_writes_the_findings(tmp_path, ours, name, status):
    step = _steps()["Check skills"]
    folder = tmp_path / "skills" / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(GOOD.format(name="good"))
    inputs = yaml.safe_load(ACTION.read_text())["inputs"]
    assert {value.partition(".")[2].rstrip(" }") for value in step["env"].values()} <= set(inputs)
    result = tmp_path / "output"
    variables = {**ours, "PATHS": "skills", "LEVEL": "strict", "SARIF": "found.sarif", "GITHUB_OUTPUT": str(result)}
    printed = run(["sh", "-e", "-c", step["run"]], cwd=tmp_path, home=tmp_path, status=status, variables=variables)
    assert result.read_text() == "sarif=found.sarif\n"
    results = json.loads((tmp_path / "found.sarif").read_text())["runs"][0]["results"]
    assert [one["ruleId"] for one in results] == ["NAME_FOLDER"] * status
    assert ("error[NAME_FOLDER]" in printed) is bool(status)
