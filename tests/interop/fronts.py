"""A proxy in front of servers, with TLS for skills.example.com on a free port of loopback."""

import socket
import ssl
import subprocess
from http.client import HTTPSConnection

import trustme
from tests.interop.hosting import Answer
from tests.interop.peers import PATIENCE, environment, find_peer
from tests.support.eventually import eventually
from tests.support.free_port import free_port

_FRAME = """
worker_processes 1;
daemon off;
master_process off;
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
  {block}
}}
"""
#: Program → what is written in a configuration, and what stands there here.
_WRITTEN = {
    "nginx": {
        "listen 443 ssl": "listen 127.0.0.1:{port} ssl",
        "tls/certificate.pem": "{work}/both.pem",
        "tls/key.pem": "{work}/both.pem",
    },
    "haproxy": {":443 ssl crt /etc/haproxy/skills.example.com.pem": "127.0.0.1:{port} ssl crt {work}/both.pem"},
    "caddy": {
        "skills.example.com {\n": "{{\nadmin off\nauto_https disable_redirects\n}}\n"
        "skills.example.com:{port} {{\nbind 127.0.0.1\ntls {work}/both.pem {work}/both.pem\n"
    },
}
_ARGUMENTS = {
    "nginx": ["-p", "{work}", "-c", "{file}", "-e", "{work}/error.log"],
    "haproxy": ["-db", "-f", "{file}"],
    "caddy": ["run", "--adapter", "caddyfile", "--config", "{file}"],
}


class Front:
    """A running proxy; a context manager.

    Args:
        text: its configuration.
        changes: written text → ours, beside addresses and certificates.
        work: a folder of its own, which is made.
        program: nginx, haproxy or caddy.
    """

    def __init__(self, text, changes, work, program="nginx"):
        work.mkdir()
        authority = trustme.CA()
        self._context = ssl.create_default_context()
        authority.configure_trust(self._context)
        certificate = authority.issue_cert("skills.example.com")
        certificate.private_key_and_cert_chain_pem.write_to_path(work / "both.pem")
        self.port, self.plain_port = free_port(), free_port()
        ours = {written: here.format(port=self.port, work=work) for written, here in _WRITTEN[program].items()}
        for written, here in (ours | changes).items():
            assert written in text
            text = text.replace(written, here)
        text = text.replace("listen 80;", f"listen 127.0.0.1:{self.plain_port};")  # not in each
        file = work / "configuration"
        file.write_text(_FRAME.format(work=work, block=text) if program == "nginx" else text)
        arguments = [one.format(work=work, file=file) for one in _ARGUMENTS[program]]
        with (work / "output").open("wb") as output:
            self._process = subprocess.Popen(
                [*find_peer(program), *arguments], env=environment(work), stdout=output, stderr=output
            )
        eventually(lambda: self._listens() or self._process.poll() is not None)
        assert self._process.poll() is None, [path.read_text() for path in work.glob("[oe]*") if path.is_file()]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(PATIENCE)

    def _listens(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def ask(self, path, *, method="GET", body=None, **fields):
        """Make one request of skills.example.com; return the connection and the response, whose body is to come."""
        connection = HTTPSConnection("skills.example.com", self.port, timeout=PATIENCE, context=self._context)
        plain = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        connection.sock = self._context.wrap_socket(plain, server_hostname="skills.example.com")
        named = {name.replace("_", "-"): value for name, value in fields.items()}
        connection.request(method, path, body, headers={"Host": "skills.example.com", **named})
        return connection, connection.getresponse()

    def get(self, path, **how):
        """Make one request of skills.example.com; nothing is decoded."""
        connection, response = self.ask(path, **how)
        try:
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, headers, response.read())
        finally:
            connection.close()
