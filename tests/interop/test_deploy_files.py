"""The files in deploy/: each is what its program accepts, and names only what the command line has."""

import re
import shlex
import shutil
import sys
import tomllib
from ipaddress import ip_network
from pathlib import Path

import click
import pytest
import yaml
from tests.interop.peers import find_peer, run

from skillwire.cli.main import cli
from skillwire.server.configuration import read_configuration

PROJECT = Path(__file__).parents[2]
DEPLOY = PROJECT / "deploy"
UNITS = {
    "skillwire@.service": ["skillwire@8001.service", "skillwire.service"],
    "skillwire-worker.service": ["skillwire-worker.service"],
    "skillwire-dht.service": ["skillwire-dht.service"],
}
#: What `systemd-analyze security` may say of each, in tenths: the worker makes namespaces and mounts.
EXPOSURE = {"skillwire@.service": 25, "skillwire-worker.service": 60, "skillwire-dht.service": 25}


def click_command(name):
    command = cli.get_command(cli.make_context("skillwire", [], resilient_parsing=True), name)
    assert command
    return command


def compose():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def kubernetes():
    return {one["kind"]: one for one in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())}


def container():
    [found] = kubernetes()["Deployment"]["spec"]["template"]["spec"]["containers"]
    return found


def dockerfile(instruction):
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    return re.findall(rf"^{instruction} +(.+)$", text, re.MULTILINE)


def command_lines():
    """Return the arguments that each file gives to the command."""
    [default] = dockerfile("CMD")[-1:]
    found = {"Dockerfile": yaml.safe_load(default), "kubernetes": container()["args"]}
    found |= {name: row["command"] for name, row in compose()["services"].items() if name.startswith("server")}
    for name in UNITS:
        [line] = re.findall(r"^ExecStart=/opt/skillwire/bin/skillwire (.+)$", unit(name), re.MULTILINE)
        found[name] = shlex.split(line)
    return found


def unit(name):
    return (DEPLOY / "systemd" / name).read_text()


@pytest.mark.parametrize("place", command_lines())
def test_the_command_line_is_one_of_ours(place, tmp_path, monkeypatch):
    (tmp_path / "dht.yaml").touch()
    shutil.copy(DEPLOY / "server.toml", tmp_path)
    arguments = [one.replace("/etc/skillwire", str(tmp_path)) for one in command_lines()[place]]
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path))
    name, *rest = arguments
    command = click_command(name)
    if isinstance(command, click.Group):
        name, *rest = rest
        command = command.commands[name]
    assert command.make_context(name, rest).params


def test_variables_are_those_of_the_command_line():
    text = "".join(path.read_text() for path in DEPLOY.rglob("*") if path.suffix != ".pem" and path.is_file())
    known = {"SKILLWIRE_HOME", "SKILLWIRE_STORE"}  # of every command
    for name in ("serve", "worker"):
        known |= {parameter.envvar for parameter in click_command(name).params}
    assert {name.removesuffix("_FILE") for name in re.findall(r"\bSKILLWIRE_[A-Z_]+\b", text)} <= known


@pytest.mark.parametrize(
    "text",
    [(DEPLOY / "server.toml").read_text(), kubernetes()["ConfigMap"]["data"]["server.toml"]],
    ids=["server.toml", "kubernetes.yaml"],
)
def test_the_configuration_is_one_of_ours(text):
    assert read_configuration(text.encode(), "server.toml").trusted_proxies


def test_ports_paths_and_networks_agree():
    assert set(dockerfile("EXPOSE")) == {str(container()["ports"][0]["containerPort"])} == {"8000"}
    assert "http://127.0.0.1:8000/readyz" in dockerfile("HEALTHCHECK")[0]
    [subnet] = compose()["networks"]["backend"]["ipam"]["config"]
    trusted = tomllib.loads((DEPLOY / "server.toml").read_text())["http"]["trusted_proxies"]
    assert ip_network(subnet["subnet"]) in map(ip_network, trusted)
    servers = re.findall(r"server (\S+)", compose()["configs"]["upstream"]["content"])
    assert servers == [f"{name}:8000" for name in compose()["services"] if name.startswith("server")]
    one_machine = re.findall(r"127\.0\.0\.1:800[123]", (DEPLOY / "nginx-servers.conf").read_text())
    for name in ("haproxy.cfg", "Caddyfile"):
        assert re.findall(r"127\.0\.0\.1:800[123]", (DEPLOY / name).read_text()) == one_machine
    home = next(line for line in dockerfile("ENV") if "SKILLWIRE_HOME" in line)
    assert "SKILLWIRE_HOME=/var/lib/skillwire" in home
    assert {"/etc/skillwire", "/var/lib/skillwire"} <= {one["mountPath"] for one in container()["volumeMounts"]}


def test_containers_run_without_rights_and_with_a_read_only_root():
    assert dockerfile("USER") == ["10001:10001"]
    for name, row in compose()["services"].items():
        assert "latest" not in row["image"]
        assert row.get("read_only") or name == "database"
    server = compose()["services"]["server1"]
    assert (server["cap_drop"], server["security_opt"]) == (["ALL"], ["no-new-privileges:true"])
    spec = kubernetes()["Deployment"]["spec"]
    assert (spec["replicas"], kubernetes()["PodDisruptionBudget"]["spec"]["minAvailable"]) == (3, 2)
    for one in (container(), *spec["template"]["spec"]["initContainers"]):
        assert one["securityContext"]["readOnlyRootFilesystem"]
        assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert spec["template"]["spec"]["securityContext"]["runAsUser"] == 10001
    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= container().keys()


def test_the_image_builds_from_the_files_that_it_copies(tmp_path):
    for line in dockerfile("COPY"):
        *sources, target = line.split()
        if sources[0].startswith("--from"):
            continue
        for source in sources:
            if (PROJECT / source).is_dir():
                shutil.copytree(PROJECT / source, tmp_path / target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                (tmp_path / target).mkdir(parents=True, exist_ok=True)
                shutil.copy(PROJECT / source, tmp_path / target)
    built = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path / "dist")]
    run(built, cwd=tmp_path, home=tmp_path)
    assert list((tmp_path / "dist").glob("*.whl"))
    script, *_ = dockerfile("RUN")
    run(["sh", "-c", script.partition("&&")[0]], cwd=tmp_path, home=tmp_path)
    rows = (tmp_path / "constraints.txt").read_text().splitlines()
    pinned = [row for row in rows if row and not row.lstrip().startswith("#")]
    assert len(pinned) > 50
    assert all(re.fullmatch(r"[\w.-]+==\S+( ; .+)?", row) for row in pinned)
    [extras] = re.findall(r"'\.\[([\w,-]+)\]'", script)
    assert (
        set(extras.split(","))
        <= tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"].keys()
    )


@pytest.mark.parametrize("name", UNITS)
def test_systemd_accepts_the_unit_and_rates_it_as_hardened(name, tmp_path):
    analyze = find_peer("systemd-analyze")
    # The program and the user exist on the operator's machine.
    text = unit(name).replace("/opt/skillwire/bin/skillwire", sys.executable).replace("User=skillwire", "User=daemon")
    for installed in UNITS[name]:
        file = tmp_path / installed
        file.write_text(text)
        assert run([*analyze, "verify", "--man=no", str(file)], cwd=tmp_path, home=tmp_path) == ""
        said = run([*analyze, "security", "--offline=true", "--no-pager", str(file)], cwd=tmp_path, home=tmp_path)
        [exposure] = re.findall(r"Overall exposure level .*: ([\d.]+)", said)
        assert float(exposure) * 10 <= EXPOSURE[name]


@pytest.mark.deep
@pytest.mark.parametrize(
    ("peer", "arguments"),
    [
        ("hadolint", ["Dockerfile"]),
        ("check-jsonschema", ["--builtin-schema", "vendor.compose-spec", "compose.yaml"]),
        ("kubernetes-validate", ["--strict", "kubernetes.yaml"]),
        ("caddy", ["validate", "--config", "Caddyfile"]),
    ],
)
def test_a_program_of_others_finds_no_fault(peer, arguments, tmp_path):
    said = run([*find_peer(peer), *arguments], cwd=DEPLOY, home=tmp_path)
    assert not re.search(r'\bDL\d+|"level":"error"|\bfailed\b(?!")', said), said
