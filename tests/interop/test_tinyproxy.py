"""Skills come through tinyproxy, with and without credentials; it resolves the host, which this machine cannot."""

import contextlib
import os
import socket
import subprocess
from urllib.parse import urlsplit

import pytest
from tests.interop.hosting import Nginx, behind_tls
from tests.interop.peers import PATIENCE, environment, find_peer, run, skillwire
from tests.interop.skill_samples import copy_examples
from tests.support.eventually import eventually
from tests.support.free_port import free_port
from tests.support.raw_server import RawServer, opening_tunnels

HOST = "skills.example"
CONFIG = """\
Listen 127.0.0.1
Port {port}
Timeout 20
MaxClients 20
LogFile "{folder}/log"
Upstream http 127.0.0.1:{upstream}
{more}
"""


@contextlib.contextmanager
def tinyproxy(folder, upstream, more=""):
    """Run tinyproxy, which forwards every tunnel to another proxy; give its port."""
    folder.mkdir()
    port = free_port()
    config = folder / "tinyproxy.conf"
    config.write_text(CONFIG.format(port=port, folder=folder, upstream=upstream, more=more))
    command = [*find_peer("tinyproxy"), "-d", "-c", str(config)]
    with subprocess.Popen(command, env=environment(folder), stdout=subprocess.DEVNULL) as process:
        try:
            assert eventually(lambda: _listens(port) or process.poll() is not None)
            assert process.poll() is None, "it did not start"
            yield port
        finally:
            process.terminate()
            process.wait(PATIENCE)


def _listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Give a site of ours with TLS, its authority, and the port of the proxy that resolves its name."""
    find_peer("tinyproxy")
    find_peer("nginx")
    folder = tmp_path_factory.mktemp("site")
    copy_examples(folder / "skills")
    with (
        Nginx(folder / "skills", folder / "work") as publisher,
        behind_tls(publisher.url, folder, HOST) as (url, authority),
        RawServer(opening_tunnels(urlsplit(url).port or 0)) as upstream,
    ):
        yield url, authority, upstream.port


def add(site, tmp_path, proxy, status=0):
    url, authority, _ = site
    project = tmp_path / "project"
    project.mkdir()
    variables = {"HTTPS_PROXY": proxy, "SSL_CERT_FILE": str(authority)}
    command = ["env", *(f"{name}={value}" for name, value in variables.items())]
    command += skillwire("add", f"{url}/csv-profile", "--yes", "--agent", "universal")
    printed = run(command, cwd=project, home=tmp_path, status=status)
    return printed, os.path.isfile(project / ".agents/skills/csv-profile/SKILL.md")  # noqa: PTH113  # a link is none


def test_a_skill_comes_through_it(site, tmp_path):
    with tinyproxy(tmp_path / "proxy", site[2]) as port:
        assert add(site, tmp_path, f"http://127.0.0.1:{port}")[1]


@pytest.mark.parametrize(("user", "is_added"), [("me:p%61ss@", True), ("me:hush@", False), ("", False)])
def test_it_wants_credentials(site, tmp_path, user, is_added):
    with tinyproxy(tmp_path / "proxy", site[2], "BasicAuth me pass") as port:
        printed, added = add(site, tmp_path, f"http://{user}127.0.0.1:{port}", status=0 if is_added else 5)
    assert added is is_added
    assert "hush" not in printed
    if not is_added:
        assert f"the proxy 127.0.0.1:{port}, which HTTPS_PROXY names, answered 40" in printed
        assert "PROXY_REFUSED" in printed


def test_it_refuses_the_port(site, tmp_path):
    with tinyproxy(tmp_path / "proxy", site[2], "ConnectPort 443") as port:
        assert "answered 403" in add(site, tmp_path, f"http://127.0.0.1:{port}", status=5)[0]
