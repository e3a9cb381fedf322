"""A private origin that redirects to its CDN: skills install, and the credential stays at the origin."""

from tests.support.command import run_command
from tests.support.raw_server import RawServer, answer, index_of, pages

from skillwire.model.digest import Digest

SKILL = b"---\nname: one\ndescription: Does one. Use when one is asked for.\n---\nDo it.\n"
INDEX = "/.well-known/agent-skills/index.json"
HUSH = b"authorization: bearer hush"


def test_index_and_artifact_come_from_the_cdn_without_the_credential(tmp_path):
    entry = {"name": "one", "type": "skill-md", "description": "Does one. Use when one is asked for.", "url": "/one.md"}
    found = {INDEX: index_of({**entry, "digest": str(Digest.of(SKILL))}), "/one.md": SKILL}
    with RawServer(pages(found)) as cdn:

        def redirect(peer):
            while request := peer.request():
                location = cdn.url(request.split(b" ")[1].decode())
                if HUSH in request.lower():
                    peer.send(answer(b"", f"Location: {location}", status="302 Found"))
                else:
                    peer.send(answer(b"{}", status="401 Unauthorized"))

        with RawServer(redirect) as origin:
            base = origin.url("")
            environment = {
                "SKILLWIRE_HOME": str(tmp_path / "home"),
                "SKILLWIRE_TOKENS": f"{base}=hush",
                "SKILLWIRE_ALLOW": cdn.url(""),
            }
            added = run_command("add", f"{base}/one", "--yes", "--agent", "universal", env=environment, cwd=tmp_path)
            assert added.code == 0, added.err
    assert (tmp_path / ".agents/skills/one/SKILL.md").read_bytes() == SKILL
    assert {f"GET {path} HTTP/1.1".encode() for path in found} <= {one.split(b"\r\n")[0] for one in cdn.requests}
    assert not [one for one in cdn.requests if b"authorization" in one.lower()]
