"""The commands of the page about deploying, under Processes, as they stand but for ports and nginx's folders."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.interop.peers import PATIENCE, environment, find_peer
from tests.support.free_port import free_port
from tests.support.pages import boxes, examples

PROJECT = Path(__file__).parents[2]
PAGE = PROJECT / "docs" / "how-to" / "deploy.md"
NGINX = """\
worker_processes 1;
user root;
pid {work}/nginx.pid;
error_log {work}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {work}/body;
  proxy_temp_path {work}/proxy;
  fastcgi_temp_path {work}/fastcgi;
  uwsgi_temp_path {work}/uwsgi;
  scgi_temp_path {work}/scgi;
  include conf.d/*.conf;
}}
"""


@pytest.fixture
def machine(tmp_path):
    """Give a fresh machine: the variables of its user, and the function that says there what the page says."""
    nginx = " ".join(find_peer("nginx"))
    find_peer("curl")
    find_peer("openssl")
    etc, programs = tmp_path / "etc", tmp_path / "bin"
    (etc / "conf.d").mkdir(parents=True)
    programs.mkdir()
    (etc / "nginx.conf").write_text(NGINX.format(work=tmp_path))
    command = f"{nginx} -c {etc}/nginx.conf -e {tmp_path}/error.log"
    for name, line in {
        "sudo": 'exec "$@"',
        "nginx": f'exec {command} "$@"',
        "systemctl": command,  # that reloads here, for the first time
        "skillwire": f'exec {sys.executable} -m skillwire "$@"',
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (programs / name).chmod(0o755)
    ports = [free_port() for _ in range(5)]
    ours = {f"800{number}": str(ports[number]) for number in (1, 2, 3)} | {
        "listen 443": f"listen 127.0.0.1:{ports[0]}",
        "listen 80;": f"listen 127.0.0.1:{ports[4]};",
        "https://localhost": f"https://localhost:{ports[0]}",
        "/etc/nginx": str(etc),
        "/var/cache": str(tmp_path),
    }

    def here(text):
        for written, replaced in ours.items():
            text = text.replace(written, replaced)
        return text

    checkout = tmp_path / "checkout"
    (checkout / "deploy").mkdir(parents=True)
    (checkout / "examples").symlink_to(PROJECT / "examples")
    for file in (PROJECT / "deploy").glob("*.*"):
        (checkout / "deploy" / file.name).write_text(here(file.read_text()))
    variables = environment(tmp_path)
    yield checkout, variables | {"PATH": f"{programs}:{variables['PATH']}"}, here
    if (tmp_path / "nginx.pid").exists():
        os.kill(int((tmp_path / "nginx.pid").read_text()), signal.SIGTERM)


def test_three_servers_run_behind_nginx(machine):
    checkout, variables, here = machine
    [box] = [box for box in boxes(PAGE) if box.title == "processes"]
    script = "\n".join(["set -e", *(here(command) for command, _ in examples(box.text))])
    with (checkout / "errors").open("w") as errors:
        shell = subprocess.Popen(
            ["sh", "-c", script],
            cwd=checkout,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,  # so that the servers end with it
        )
    try:
        assert shell.wait(PATIENCE) == 0, (checkout / "errors").read_text()
    finally:
        os.killpg(shell.pid, signal.SIGTERM)
        said, _ = shell.communicate(timeout=PATIENCE)
    assert '"status"' in said
    assert "csv-profile" in said.splitlines()[-1]
