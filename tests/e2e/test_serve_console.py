"""The console of a real ``skillwire serve``: a key of the command line opens it, and live pages do not keep it up."""

import contextlib
from http.client import HTTPConnection
from urllib.parse import urlencode

from tests.support.command import run_command
from tests.support.eventually import PATIENCE
from tests.support.publishing import ServeProcess, write_skill

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def make_key(home):
    made = run_command("token", "create", "ann", "--scope", "operator", "-q", env={"SKILLWIRE_HOME": str(home)})
    return made.out.split()[-1]


def sign_in(port, key):
    with contextlib.closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        fields = {**FORM, "Origin": f"http://127.0.0.1:{port}"}
        connection.request("POST", "/login", urlencode({"key": key}), fields)
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Location"]) == (303, "/executions")
        return answer.headers["Set-Cookie"].partition(";")[0]


def test_a_live_page_ends_with_the_server_and_does_not_hold_it_up(tmp_path):
    write_skill(tmp_path / "skills", "notes")
    key = make_key(tmp_path / "home")
    with ServeProcess(tmp_path / "skills", home=tmp_path / "home") as server:
        cookie = sign_in(server.port, key)
        with contextlib.closing(HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)) as connection:
            connection.request("GET", "/executions/live", headers={"Cookie": cookie})
            stream = connection.getresponse()
            assert stream.headers["Content-Type"] == "text/event-stream; charset=utf-8"
            while stream.readline() != b"event: part\n":
                pass
            code, errors = server.end()
            assert code == 0, errors
            assert b"<table" not in stream.read(), "nothing was executed"
        assert key[20:] not in errors
        assert cookie.partition("=")[2] not in errors
