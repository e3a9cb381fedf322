"""What a stranger hands us beside datagrams: details of hints, questions for certificates, answers to them, and lists.

Whatever its bytes are, reading it ends as its docstring says, or with the errors that it names.
"""

import base64
import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.authorities import World
from tests.support.datagrams import identifiers, names

from skillwire import limits
from skillwire.errors import DecodeError, TrustError, ValidationError
from skillwire.protocols.skill_discovery.credentials import judge_renewal, read_issued, write_issued, write_renewal
from skillwire.protocols.skill_discovery.dnssd import SkillDetails, read_details
from skillwire.trust.certificates import RequestedNames
from skillwire.trust.ecdsa import new_key
from skillwire.trust.revocations import Revocations

WORLD = World(now=1_707_868_800.0)
HOLDER = WORLD.identity("agent-001")
NOW = WORLD.now
QUESTION = json.loads(write_renewal(HOLDER, new_key(), RequestedNames(("agent-001",)), NOW))
LIST = WORLD.revoke(HOLDER)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


def with_keys(*keys):
    """Return documents that have some of these keys, each with any value."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(keys, JSON))


def as_bytes(documents):
    """Return documents as they are written, or with something cut out and put in."""
    return documents.map(lambda one: json.dumps(one).encode()) | st.binary(max_size=400)


@st.composite
def damaged(draw, whole):
    """Return ``whole`` with a part of it replaced by anything."""
    begin = draw(st.integers(0, len(whole)))
    end = draw(st.integers(begin, min(len(whole), begin + 40)))
    return whole[:begin] + draw(st.binary(max_size=40)) + whole[end:]


SKILLS = st.lists(with_keys("skillId", "capabilities", "scenes") | JSON, max_size=4)
DETAILS = st.fixed_dictionaries({"agentId": st.just("agent-001")}, optional={"skills": SKILLS | JSON}) | JSON


@pytest.mark.spec("SDP-mdns-record")
@given(as_bytes(DETAILS))
def test_no_details_of_a_stranger_raise_anything_but_a_decode_error(body):
    try:
        found = read_details(body, "http://192.0.2.1/lan").skills
    except DecodeError:
        return
    lists = [names for one in found for names in (one.capabilities, one.scenes)]
    assert all(len(names) <= limits.LAN_DETAILS_NAMES for names in lists)


@pytest.mark.spec("SDP-mdns-record")
@given(st.dictionaries(identifiers, st.tuples(names, names), max_size=5))
def test_details_that_were_written_are_read(skills):
    rows = [{"skillId": name, "capabilities": lists[0], "scenes": lists[1]} for name, lists in skills.items()]
    body = json.dumps({"agentId": "agent-001", "skills": rows}).encode()
    assert read_details(body, "").skills == tuple(SkillDetails(name, *lists) for name, lists in skills.items())


FIELDS = ("request", "certificate", "timestamp", "signature")
QUESTIONS = st.one_of(
    as_bytes(with_keys(*FIELDS) | JSON),
    damaged(json.dumps(QUESTION).encode()),
    st.sampled_from(FIELDS).flatmap(lambda name: JSON.map(lambda value: json.dumps(QUESTION | {name: value}).encode())),
    damaged(QUESTION["request"].encode()).map(
        lambda request: json.dumps(QUESTION | {"request": request.decode("utf-8", "replace")}).encode()
    ),
    damaged(HOLDER.certificate).map(
        lambda leaf: json.dumps(QUESTION | {"certificate": base64.b64encode(leaf).decode()}).encode()
    ),
)


@pytest.mark.spec("SDP-renewal")
@given(QUESTIONS)
def test_no_question_for_a_certificate_raises_anything_else_or_gives_more_than_its_holder_has(body):
    chain = WORLD.chain()
    try:
        renewal = judge_renewal(body, chain.judge, NOW)
    except (DecodeError, ValidationError, TrustError):
        return
    assert renewal.names == RequestedNames(("agent-001",))
    assert renewal.certificate == HOLDER.certificate


@pytest.mark.spec("SDP-renewal")
@given(as_bytes(with_keys("certificate") | JSON))
def test_no_answer_with_a_certificate_raises_anything_else(body):
    try:
        assert isinstance(read_issued(body), bytes)
    except (DecodeError, ValidationError):
        return


@pytest.mark.spec("SDP-renewal")
@given(st.binary(max_size=800))
def test_a_certificate_that_was_written_is_read(certificate):
    assert read_issued(write_issued(certificate)) == certificate


def der(pem):
    return base64.b64decode(b"".join(line for line in pem.splitlines() if not line.startswith(b"-")))


def pem(kind, data):
    """Return bytes in PEM, as a list or as a certificate."""
    return b"-----BEGIN %b-----\n%b-----END %b-----\n" % (kind, base64.encodebytes(data), kind)


LISTS = st.one_of(
    st.binary(max_size=400),
    damaged(LIST),
    damaged(der(LIST)),
    damaged(der(LIST)).map(lambda data: pem(b"X509 CRL", data)),
    damaged(WORLD.root.certificate).map(lambda data: LIST + pem(b"CERTIFICATE", data)),
    damaged(LIST).map(lambda data: LIST + data),
)


@pytest.mark.spec("SDP-revocation")
@given(LISTS)
def test_no_list_raises_anything_but_a_trust_error_and_what_is_refused_counts_for_nothing(data):
    revocations = Revocations(WORLD.authorities)
    is_new = False
    with contextlib.suppress(TrustError):
        is_new = revocations.take(data, NOW)
    assert len(revocations) == int(is_new)
