"""A page of ``list_skills``, beside a bare ASGI application with the same bytes: ``python bench/rpc_list.py``.

Ours is ``skillwire serve`` with 10,000 skills (or the given number), which answers ``POST /rpc`` with 50 skills and
their summaries; each request starts at another random cursor, so no two are the same. The peer is one function under
uvicorn, httptools and uvloop, which sends one of those answers for every request. Both get the same requests over one
kept connection, in turns. Counted is the server's CPU time per request, user and system.

Two ratios are printed: *direct*, and *through a proxy*, with one more header field. Both take the ordinary way through
the server. The goal is 6 for both. That of 2.5 was given up: one route of Starlette that parses the request and sends
the same bytes takes 2.0, which leaves 17 µs for credentials, bounds, rights, metrics and the page.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from http.client import HTTPResponse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bare_asgi import bare, started
from comparison import Goal, compare
from skillwire.folder.publish import PreparedSkill, prepare
from skillwire.protocols.skills_rpc.codec import Call, decode, decode_params, encode_result
from skillwire.protocols.skills_rpc.messages import ListSkills
from skillwire.protocols.skills_rpc.server import SkillIndex, encode_list_cursor
from workload import make_skills

if TYPE_CHECKING:
    from collections.abc import Sequence
    from http.client import HTTPConnection

    from bare_asgi import Server

SKILLS: Final = 10_000
ROUNDS: Final = 5
REQUESTS: Final = 400
IN_PROCESS: Final = 5_000
PAGE: Final = 50
GOAL_MS: Final = 5.0
NAMESPACE: Final = "acme"
HEAD: Final = b"POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n"
WAYS: Final = {"direct": b"", "through a proxy": b"X-Forwarded-For: 192.0.2.7\r\n"}


def cost(server: Server, requests: Sequence[bytes], fields: bytes) -> float:
    """Return the CPU microseconds that it takes to answer each of ``requests``."""
    before = server.cpu()
    for request in requests:
        _post(server.connection, request, fields)
    return (server.cpu() - before) / len(requests) * 1e6


def main() -> None:
    """Measure and print."""
    skills = int(sys.argv[1]) if len(sys.argv) > 1 else SKILLS
    draw = random.Random(1)  # noqa: S311  # the same places each time, nothing secret
    with tempfile.TemporaryDirectory(prefix="skillwire-bench-") as work:
        folder = Path(work, "skills")
        make_skills(folder, skills)
        rounds = [[_request(draw, skills) for _ in range(REQUESTS)] for _ in range(ROUNDS)]
        _in_process(folder, [request for part in rounds for request in part])
        _served(folder, Path(work), rounds, skills)


def _in_process(folder: Path, requests: Sequence[bytes]) -> None:
    """Measure the pure part, over skills that are prepared from their folders."""
    prepared = [prepare(one, NAMESPACE) for one in sorted(folder.iterdir())]
    index = SkillIndex({one.skill.name: one.skill for one in prepared if isinstance(one, PreparedSkill)})
    assert len(index) == len(prepared)
    slowest = []
    for _ in range(ROUNDS):
        times = []
        for number in range(IN_PROCESS):
            begun = time.perf_counter()
            _answer(requests[number % len(requests)], index)
            times.append((time.perf_counter() - begun) * 1e3)
        slowest.append(sorted(times)[len(times) * 99 // 100])
    measured = f"list_skills, {PAGE} of {len(index):,} skills, in process, p99"
    compare(measured, slowest, [GOAL_MS] * ROUNDS, Goal("at most", 1.0), peer="its goal")


def _answer(request: bytes, index: SkillIndex) -> bytes:
    call = decode(request)
    assert isinstance(call, Call)
    return encode_result(call.request_id, index.page(decode_params(call.params, ListSkills)))


def _served(folder: Path, work: Path, rounds: Sequence[Sequence[bytes]], skills: int) -> None:
    """Measure the server beside a bare one."""
    serve = [sys.executable, "-m", "skillwire", "serve", str(folder), "--publisher", NAMESPACE]
    with started([*serve, "--port", "0", "--json", "--no-access-log"], {"SKILLWIRE_HOME": str(work / "home")}) as ours:
        time.sleep(3)  # until the look right after the first one is over
        sample = work / "answer"
        sample.write_bytes(_post(ours.connection, rounds[0][0], b""))
        assert len(json.loads(sample.read_bytes())["result"]["skills"]) == PAGE
        with bare(sample) as plain:
            for way, fields in WAYS.items():
                cost(plain, rounds[0], fields)
                cost(ours, rounds[0], fields)
                pairs = [(cost(ours, part, fields), cost(plain, part, fields)) for part in rounds]
                mine, theirs = zip(*pairs, strict=True)
                measured = f"list_skills, {PAGE} of {skills:,} skills, POST /rpc, {way}"
                compare(measured, mine, theirs, Goal("at most", 6.0), peer="a bare ASGI application", unit="µs of CPU")


def _request(draw: random.Random, skills: int) -> bytes:
    """Return a request for a page that begins at a place which is drawn, and is whole."""
    cursor = encode_list_cursor(NAMESPACE, f"{NAMESPACE}.skill.{draw.randrange(skills - PAGE - 1):05}")
    params = {"namespace": NAMESPACE, "detail": "summary", "limit": PAGE, "cursor": cursor}
    return json.dumps(
        {"jsonrpc": "2.0", "id": draw.randrange(10**6), "method": "list_skills", "params": params}
    ).encode()


def _post(connection: HTTPConnection, request: bytes, fields: bytes) -> bytes:
    # In one piece, as most clients send it: the library sends head and body apart, and bare waits for no body.
    if connection.sock is None:
        connection.connect()
    connection.sock.sendall(HEAD % (fields, len(request)) + request)
    with HTTPResponse(connection.sock, method="POST") as response:
        response.begin()
        body = response.read()
    assert response.status == 200, body
    return body


if __name__ == "__main__":
    main()
