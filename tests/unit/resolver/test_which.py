"""Which skill a reference means: every lookup is written down, and what follows from it is said."""

import json

import pytest

from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.files.client_cache import FileOriginBook, FileResponseCache
from skillwire.adapters.files.install_folder import FileSkillsFolder
from skillwire.errors import FetchError
from skillwire.model.digest import Digest
from skillwire.model.ref import InstallLocation, Lock, LockedSkill, OriginRecord
from skillwire.protocols.agent_skills.messages import SCHEMA_URI
from skillwire.resolver.context import ResolveContext
from skillwire.resolver.lockfile import encode_lock
from skillwire.resolver.plan import InstallPolicy
from skillwire.resolver.references import parse_reference
from skillwire.resolver.which import which
from skillwire.testing.publisher import SimulatedPublisher
from skillwire.trust.address import AddressPolicy

A, B, C = (f"https://{letter}.example" for letter in "abc")
NOW = 1_800_000_000.0


def index_url(origin):
    return f"{origin}/.well-known/agent-skills/index.json"


class Bench:
    """A resolver with its files, a simulated publisher and a clock that stands."""

    def __init__(self, folder):
        self.publisher = SimulatedPublisher()
        self.folder = FileSkillsFolder(folder)
        self.session = ResolveContext(
            cache=FileResponseCache(folder / "responses"),
            blobs=FileBlobs(folder / "blobs"),
            origins=FileOriginBook(folder / "origins.json"),
            credentials={},
            clock=lambda: NOW,
            report=lambda _: None,
        )
        self.policy = InstallPolicy()
        self.addresses = AddressPolicy()

    def publish(self, origin, *names, **headers):
        entries = [
            {
                "name": name,
                "type": "skill-md",
                "description": f"Does {name}.",
                "url": f"/{name}.md",
                "digest": Digest.of(f"{origin}/{name}".encode()),
            }
            for name in names
        ]
        document = json.dumps({"$schema": SCHEMA_URI, "skills": entries}).encode()
        self.publisher.answer(index_url(origin), document, **headers)

    def which(self, text, **changes):
        flow = which(
            parse_reference(text),
            self.session._replace(**changes),
            policy=self.policy,
            addresses=self.addresses,
            folder=self.folder,
        )
        return self.publisher.run(flow)


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def test_the_skill_of_an_origin_is_found_by_one_lookup(bench):
    bench.publish(A, "code-review", cache_control="max-age=300")
    answer = bench.which("a.example/code-review")
    (skill,) = answer.found
    assert (skill.name, skill.origin, skill.url) == ("code-review", A, f"{A}/code-review.md")
    assert answer.error is None
    assert answer.why == "its index lists it"
    (step,) = answer.steps
    assert step.refused is None
    assert step.attempt == (index_url(A), False, "origin", 0.0, 300.0, "0.2.0", 1, None)


def test_a_second_look_is_answered_by_the_cache_with_its_age(bench):
    bench.publish(A, "code-review", cache_control="max-age=300")
    bench.which("a.example/code-review")
    (step,) = bench.which("a.example/code-review", clock=lambda: NOW + 100).steps
    assert (step.attempt.answered_by, step.attempt.age, step.attempt.fresh_for) == ("cache", 100.0, 200.0)
    (step,) = bench.which("a.example/code-review", clock=lambda: NOW + 400).steps
    assert (step.attempt.answered_by, step.attempt.age, step.attempt.fresh_for) == ("revalidation", 0.0, 300.0)
    (step,) = bench.which("a.example/code-review", clock=lambda: NOW + 9999, offline=True).steps
    assert (step.attempt.answered_by, step.attempt.fresh_for) == ("cache", 0.0)


def test_a_bare_name_tells_every_source_in_order_and_who_else_has_it(bench):
    bench.publish(A, "other")
    bench.publish(B, "code-review")
    bench.publish(C, "code-review")
    answer = bench.which("code-review", sources=("a.example", "b.example", "c.example"))
    assert [step.attempt.url for step in answer.steps] == [index_url(A), index_url(B)]
    assert answer.found[0].origin == B
    assert answer.why == "it is the first of 3 sources, in their order, whose index lists it"
    assert [skill.origin for skill in answer.others] == [C]
    assert [step.attempt.url for step in answer.beyond] == [index_url(C)]


def test_a_source_that_fails_is_part_of_the_answer(bench):
    bench.publisher.fail(index_url(A), FetchError("TIMEOUT", "too slow"))
    bench.publish(B, "code-review")
    bench.publisher.fail(index_url(C), FetchError("CONNECT_FAILED", "no"))
    answer = bench.which("code-review", sources=("a.example", "b.example", "c.example"))
    assert answer.steps[0].attempt.error.code == "TIMEOUT"
    assert answer.found[0].origin == B
    assert answer.beyond[0].attempt.error.code == "CONNECT_FAILED"
    assert answer.others == ()


def test_what_is_not_there_comes_with_the_lookups_that_say_so(bench):
    bench.publish(A, "other")
    answer = bench.which("a.example/code-review")
    assert answer.found == ()
    assert answer.error.code == "SKILL_NOT_FOUND"
    # The scope /code-review is looked up, too, at both paths; and since the cache may lag, all of it once more.
    urls = [step.attempt.url for step in answer.steps]
    assert urls[0] == index_url(A)
    assert f"{A}/code-review/.well-known/skills/index.json" in urls
    assert {step.attempt.generation for step in answer.steps} == {"0.2.0", None}


def test_a_credential_is_noted_and_not_shown(bench):
    bench.publish(A, "code-review")
    answer = bench.which("a.example/code-review", credentials={A: "Bearer hush"})
    assert answer.steps[0].attempt.has_credential
    assert "hush" not in repr(answer)


def test_the_address_policy_says_what_it_thinks_of_each_url(bench):
    bench.publish("https://10.0.0.1", "code-review")
    assert bench.which("https://10.0.0.1/code-review").steps[0].refused.code == "ADDRESS_REFUSED"
    bench.addresses = AddressPolicy(allow=("10.0.0.0/8",))
    assert bench.which("https://10.0.0.1/code-review").steps[0].refused is None


def test_trust_says_what_is_decided_and_remembered(bench):
    bench.publish(A, "code-review")
    standing = bench.which("a.example/code-review").standing
    assert (standing.decision, standing.is_listed, standing.record.accepted) == ("ask", False, False)
    bench.session.origins.record(A, OriginRecord("2026-01-01T00:00:00Z", accepted=True))
    assert bench.which("a.example/code-review").standing.decision == "allow"
    bench.policy = InstallPolicy(frozenset({"b.example"}), only_trusted=True)
    assert bench.which("a.example/code-review").standing.decision == "refuse"
    bench.policy = InstallPolicy(frozenset({"a.example"}), only_trusted=True)
    assert bench.which("a.example/code-review").standing[1:3] == ("allow", True)


def test_what_is_installed_is_compared_with_what_was_found(bench, tmp_path):
    bench.publish(A, "code-review")
    assert bench.which("a.example/code-review").installed == ()
    text = b"---\nname: code-review\n---\n"
    place = tmp_path / ".agents" / "skills" / "code-review"
    place.mkdir(parents=True)
    (place / "SKILL.md").write_bytes(text)
    locked = LockedSkill(
        "code-review", A, index_url(A), f"{A}/code-review.md", Digest.of(b"older"), "skill-md", "1.0.0",
        "2026-01-01T00:00:00Z", ("universal",), InstallLocation((".agents/skills",)),
        {"SKILL.md": Digest.of(text).removeprefix("sha256:")},
    )  # fmt: skip
    bench.folder.lock_path.write_bytes(encode_lock(Lock({"code-review": locked})))
    (here,) = bench.which("a.example/code-review").installed
    assert here[1:] == (True, False, True)
    (place / "SKILL.md").write_bytes(b"edited")
    bench.publish(B, "code-review")
    (here,) = bench.which("b.example/code-review").installed
    assert here[1:] == (False, False, False)


def test_a_folder_of_this_machine_needs_no_lookup(bench, tmp_path):
    folder = tmp_path / "code-review"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: code-review\ndescription: Reviews code.\n---\nDo it.\n")
    answer = bench.which(str(folder))
    assert answer.found[0].is_local
    assert (answer.steps, answer.standing) == ((), None)
    assert answer.why == "the reference is a folder of this machine"
