"""A certificate stays good by itself, and what was taken back is known soon; whatever fails leaves what there was."""

import asyncio
import base64
import dataclasses
import json
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from tests.unit.adapters.lan.conftest import DAY, SECONDS, load, renewal

from skillwire.adapters.files.authority import AuthorityFolder
from skillwire.adapters.files.keys import LanKeys
from skillwire.adapters.files.lan_trust import load_trust
from skillwire.adapters.lan import certificates as renewals
from skillwire.adapters.lan.certificates import CertificateTasks, RenewalService, RevocationRefresh
from skillwire.errors import FetchError, TrustError
from skillwire.protocols.skill_discovery.credentials import write_renewal
from skillwire.protocols.skill_discovery.identity import Standing
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.trust.authority import CertificateAuthority
from skillwire.trust.certificates import RequestedNames, is_own, life_of, serial_of
from skillwire.trust.ecdsa import EcdsaIdentity, new_key


class TestRenewal:
    """The agent's side."""

    @pytest.mark.spec("SDP-renewal")
    async def test_a_certificate_is_renewed_after_two_thirds_of_its_life_for_the_same_names(
        self, trust, settings, clock, desk, authority
    ):
        first = trust.identity.certificate
        clock.now += 4.6 * DAY
        assert not await renewal(trust, settings, clock).renew()
        assert not desk.asked
        clock.now += 0.1 * DAY
        assert await renewal(trust, settings, clock).renew()
        assert desk.asked == ["https://registry.example/lan/certificates"]
        second = trust.identity.certificate
        found = trust.authority.judge("agent-001", second, clock.now)
        assert found is not None
        assert found.standing is Standing.CERTIFIED
        assert (found.agents, found.skills, found.hosts) == ({"agent-001"}, {"skill-a"}, {"192.0.2.7"})
        assert life_of(second)[1] == pytest.approx(clock.now + 7 * DAY, abs=2)
        assert trust.keys.certificate() == second
        assert [row.renews for row in authority.book().rows[1:]] == ["", serial_of(first)]
        assert load(settings, folder=trust.keys.folder, now=clock.now).identity.certificate == second

    async def test_what_is_refused_or_unreachable_leaves_the_old_one(self, trust, settings, clock, desk, authority):
        first = trust.identity.certificate
        clock.now += 5 * DAY
        desk.trouble = FetchError("CONNECT_FAILED", "nobody is there")
        with pytest.raises(FetchError):
            await renewal(trust, settings, clock).renew()
        desk.trouble = None
        authority.revoke("agent-001", clock.now)
        with pytest.raises(TrustError) as caught:
            await renewal(trust, settings, clock).renew()
        assert caught.value.code == "CERTIFICATE_REFUSED"
        assert trust.identity.certificate == trust.keys.certificate() == first

    @pytest.mark.parametrize("flaw", ["other authority", "other key", "other agent"])
    async def test_what_a_false_server_issues_is_not_taken(
        self, *, trust, settings, clock, authority, tmp_path, flaw, monkeypatch
    ):
        other = AuthorityFolder.create(tmp_path / "other", "Test", clock.now)
        key = trust.identity.key.public_key()
        clock.now += 5 * DAY
        made = {
            "other authority": lambda: other.issue(RequestedNames(("agent-001",)), key, clock.now),
            "other key": lambda: authority.issue(RequestedNames(("agent-001",)), new_key().public_key(), clock.now),
            "other agent": lambda: authority.issue(RequestedNames(("agent-002",)), key, clock.now),
        }[flaw]()
        first = trust.identity.certificate
        body = json.dumps({"certificate": base64.b64encode(made).decode()}).encode()

        async def answer(*_):
            return body

        monkeypatch.setattr(renewals, "post", answer)
        with pytest.raises(TrustError) as caught:
            await renewal(trust, settings, clock).renew()
        assert caught.value.code == "CERTIFICATE_REFUSED"
        assert trust.identity.certificate == trust.keys.certificate() == first

    async def test_who_has_nobody_to_ask_is_told_when_it_ends(self, trust, settings, clock):
        told: list[str] = []
        clock.now += 5 * DAY
        alone = renewal(trust, dataclasses.replace(settings, renew_from=""), clock, notify=told.append)
        assert not await alone.renew()
        assert not await alone.renew()
        assert ["renewFrom is not set: set renewFrom" in text for text in told] == [True]

    async def test_an_own_certificate_is_made_anew(self, clock, tmp_path):
        settings = LanSettings(agent_id="agent-001")
        trust = load(settings, folder=tmp_path / "lan", now=clock.now)
        first = trust.identity.certificate
        assert not await renewal(trust, settings, clock).renew()
        clock.now += 5 * DAY
        assert await renewal(trust, settings, clock).renew()
        assert trust.identity.certificate != first
        assert is_own(trust.identity.certificate)

    async def test_what_is_installed_is_taken_without_a_restart(self, settings, authority, clock, tmp_path):
        trust = load(settings, folder=tmp_path / "lan", now=clock.now)
        assert is_own(trust.identity.certificate)
        issued = authority.issue(RequestedNames(("agent-001",)), trust.identity.key.public_key(), clock.now)
        LanKeys(tmp_path / "lan").keep_certificate(issued)
        assert await renewal(trust, settings, clock).renew()
        assert trust.identity.certificate == issued

    @pytest.mark.parametrize("is_revoked", [True, False])
    async def test_another_key_is_taken_with_its_certificate_whether_or_not_ours_is_known_to_be_revoked(
        self, *, trust, settings, authority, clock, is_revoked
    ):
        if is_revoked:
            authority.revoke("agent-001", clock.now)
            trust.revocations.take(authority.revocations(clock.now), clock.now)
        trust.keys.keep_key(new_key())
        key = trust.keys.key()
        issued = authority.issue(RequestedNames(("agent-001",)), key.public_key(), clock.now)
        trust.keys.keep_certificate(issued)
        assert await renewal(trust, settings, clock).renew()
        assert trust.identity.certificate == issued
        assert trust.identity.key.public_key() == key.public_key()
        found = trust.authority.judge("agent-001", trust.identity.certificate, clock.now)
        assert found is not None
        assert found.key.verifies(b"said", trust.identity.sign(b"said"))

    async def test_the_folder_of_an_authority_renews_too(self, authority, clock, tmp_path):
        settings = LanSettings(agent_id="agent-001", renew_from=str(authority.folder))
        trust = load(settings, folder=tmp_path / "lan", now=clock.now)
        first = trust.identity.certificate
        clock.now += 5 * DAY
        assert await renewal(trust, settings, clock).renew()
        assert trust.identity.certificate != first
        assert not is_own(trust.identity.certificate)

    async def test_who_was_revoked_gets_no_other_one_until_a_person_issues_it(self, authority, clock, tmp_path):
        settings = LanSettings(agent_id="agent-001", renew_from=str(authority.folder))
        trust = load(settings, folder=tmp_path / "lan", now=clock.now)
        authority.revoke("agent-001", clock.now)
        clock.now += 5 * DAY
        with pytest.raises(TrustError) as caught:
            await renewal(trust, settings, clock).renew()
        assert caught.value.code == "CERTIFICATE_REFUSED"
        again = load(settings, folder=tmp_path / "lan", now=clock.now)
        assert "was revoked" in again.notes[0]
        with pytest.raises(TrustError, match="of this key"):
            authority.issue(RequestedNames(("agent-001",)), trust.identity.key.public_key(), clock.now)
        trust.keys.keep_key(new_key())
        trust.keys.keep_certificate(
            authority.issue(RequestedNames(("agent-001",)), trust.keys.key().public_key(), clock.now)
        )
        anew = load(settings, folder=tmp_path / "lan", now=clock.now)
        assert not anew.notes
        found = anew.authority.judge("agent-001", anew.identity.certificate, clock.now)
        assert found is not None
        assert found.standing is Standing.CERTIFIED


class TestOrphans:
    """Certificates of a SkillCenter CA that was taken back: they are renewed at once, for the key in the book."""

    @staticmethod
    def take_back(authority, now):
        """Renew the SkillCenter CA, and take the one before back."""
        first = serial_of(authority.centers[0])
        authority.renew(now)
        authority.revoke(first, now)

    async def test_one_that_was_kept_is_renewed_at_the_start(self, authority, clock, tmp_path):
        settings = LanSettings(agent_id="agent-001", renew_from=str(authority.folder))
        first = load(settings, folder=tmp_path / "lan", now=clock.now).identity.certificate
        self.take_back(authority, clock.now)
        again = load(settings, folder=tmp_path / "lan", now=clock.now)
        assert again.identity.certificate != first
        assert again.authority.judge("agent-001", again.identity.certificate, clock.now) is not None

    @pytest.mark.usefixtures("desk")
    async def test_who_has_nobody_to_ask_is_told(self, trust, settings, clock, authority):
        told: list[str] = []
        self.take_back(authority, clock.now)
        refresh = RevocationRefresh(trust, settings, lambda: None, clock=clock, notify=told.append)
        await refresh.refresh("https://registry.example/lan/revocations")
        assert ["the SkillCenter CA of our certificate was revoked" in text for text in told] == [True]
        assert trust.revocations.authorities[-1] == authority.centers[0]

    @pytest.mark.spec("SDP-authority-revocation")
    @pytest.mark.parametrize("thief", ["of the authority", "of the authority, with a number of the book", "nobody"])
    def test_whoever_has_the_key_of_the_revoked_one_is_certified_by_nobody(self, trust, authority, clock, thief):
        stolen = CertificateAuthority(authority._signer()._key, authority.centers[0])
        self.take_back(authority, clock.now)
        key, names = new_key(), RequestedNames(("agent-001",))
        forged = stolen.issue(names, key.public_key(), clock.now)
        if thief.endswith("book"):
            forged = _with_number(stolen, forged, serial_of(trust.identity.certificate))
        identity = trust.identity if thief == "nobody" else EcdsaIdentity(key, forged)
        body = write_renewal(identity, identity.key, names, clock.now)
        assert RenewalService(authority, clock).renew(body).status == (200 if thief == "nobody" else 403)

    def test_one_that_was_taken_back_itself_is_none(self, trust, authority, clock):
        authority.revoke("agent-001", clock.now)
        self.take_back(authority, clock.now)
        body = write_renewal(trust.identity, trust.identity.key, RequestedNames(("agent-001",)), clock.now)
        assert RenewalService(authority, clock).renew(body).status == 403


def _with_number(stolen, certificate, number):
    leaf = x509.load_der_x509_certificate(certificate)
    builder = x509.CertificateBuilder(
        leaf.issuer, leaf.subject, leaf.public_key(), int(number, 16), leaf.not_valid_before_utc,
        leaf.not_valid_after_utc, list(leaf.extensions),
    )  # fmt: skip
    return builder.sign(stolen._key, hashes.SHA256()).public_bytes(Encoding.DER)


class TestDesk:
    """The server's side."""

    @pytest.fixture
    def question(self, trust, clock):
        clock.now += 4 * DAY
        names = RequestedNames(("agent-001",))
        return json.loads(write_renewal(trust.identity, trust.identity.key, names, clock.now))

    @staticmethod
    def answer(authority, clock, question):
        found = RenewalService(authority, clock).renew(json.dumps(question).encode())
        return found.status, json.loads(found.body)

    def test_a_good_question_is_answered(self, authority, clock, question):
        status, answer = self.answer(authority, clock, question)
        assert status == 200
        assert authority.judge(base64.b64decode(answer["certificate"]), clock.now) is not None

    @pytest.mark.parametrize(
        "flaw", ["old", "other signer", "own certificate", "more names", "revoked", "ended", "other request"]
    )
    def test_who_has_no_good_certificate_gets_none(self, authority, clock, question, trust, flaw):
        now, key = clock.now, trust.identity.key
        if flaw == "old":
            clock.now += 400
        elif flaw == "other signer":
            thief = EcdsaIdentity(new_key(), trust.identity.certificate)
            question = json.loads(write_renewal(thief, thief.key, RequestedNames(("agent-001",)), now))
        elif flaw == "own certificate":
            own = EcdsaIdentity(
                key, load_trust(LanSettings(agent_id="x"), folder=trust.keys.folder / "x").identity.certificate
            )
            question = json.loads(write_renewal(own, key, RequestedNames(("agent-001",)), now))
        elif flaw == "more names":
            question = json.loads(write_renewal(trust.identity, key, RequestedNames(("agent-001", "agent-002")), now))
        elif flaw == "revoked":
            authority.revoke("agent-001", now)
        elif flaw == "ended":
            clock.now += 4 * DAY
            question = json.loads(write_renewal(trust.identity, key, RequestedNames(("agent-001",)), clock.now))
        else:
            other = json.loads(write_renewal(trust.identity, new_key(), RequestedNames(("agent-001",)), now))
            question["request"] = other["request"]
        before = len(authority.book().rows[1:])
        status, answer = self.answer(authority, clock, question)
        assert (status, answer["error"]["code"]) == (403, "CERTIFICATE_REFUSED")
        assert len(authority.book().rows[1:]) == before

    @pytest.mark.parametrize("field", ["request", "certificate", "signature"])
    @pytest.mark.parametrize("value", [None, 7, "", "é", "AAAA"])
    def test_what_is_malformed_is_refused(self, authority, clock, question, field, value):
        status, answer = self.answer(authority, clock, question | {field: value})
        assert status in {400, 403}
        assert answer["error"]["code"] in {"CERTIFICATE_REQUEST", "CERTIFICATE_REFUSED"}

    @pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"7", bytes(9000)])
    def test_what_is_no_question_is_refused(self, authority, clock, body):
        assert RenewalService(authority, clock).renew(body).status == 400

    def test_nobody_fills_the_book(self, authority, clock, question):
        statuses = [self.answer(authority, clock, question)[0] for _ in range(6)]
        assert statuses == [200] * 4 + [429] * 2
        clock.now += 3601
        assert self.answer(authority, clock, question)[0] == 403  # an old question is none any more

    def test_what_is_fresh_renews_nothing(self, authority, clock, question, trust):
        key, names = trust.identity.key, RequestedNames(("agent-001",))
        answer = self.answer(authority, clock, question)[1]
        for days in (0, 3):
            clock.now += days * DAY
            fresh = EcdsaIdentity(key, base64.b64decode(answer["certificate"]))
            asked = json.loads(write_renewal(fresh, key, names, clock.now))
            assert self.answer(authority, clock, asked)[0] == 429
        assert len(authority.book().rows[1:]) == 2

    def test_renewals_are_counted_by_names_whichever_certificate_asks(self, authority, clock, question, trust):
        key, names = trust.identity.key, RequestedNames(("agent-001",), ("skill-a",), ("192.0.2.7",))
        statuses = [self.answer(authority, clock, question)[0]]
        for _ in range(4):
            other = EcdsaIdentity(key, authority.issue(names, key.public_key(), clock.now - 4 * DAY))
            asked = json.loads(write_renewal(other, key, names, clock.now))
            statuses.append(self.answer(authority, clock, asked)[0])
        assert statuses == [200] * 4 + [429]
        stranger = authority.issue(RequestedNames(("agent-002",)), key.public_key(), clock.now - 4 * DAY)
        asked = json.loads(write_renewal(EcdsaIdentity(key, stranger), key, RequestedNames(("agent-002",)), clock.now))
        assert self.answer(authority, clock, asked)[0] == 200

    def test_what_has_no_form_costs_no_look_at_the_book(self, authority, clock, question, monkeypatch):
        looks = []
        monkeypatch.setattr(authority, "judge", lambda *_: looks.append(1))
        flaws: list[dict[str, Any]] = [{"request": "x"}, {"timestamp": 7}, {"certificate": "é"}]
        for asked in ({}, *(question | flaw for flaw in flaws)):
            assert self.answer(authority, clock, asked)[0] in {400, 403}
        assert not looks

    @pytest.mark.parametrize("timestamp", [True, 10**400, -(10**400), 1e400, None, "7"])
    def test_a_timestamp_is_a_whole_number_of_now(self, authority, clock, question, timestamp):
        assert self.answer(authority, clock, question | {"timestamp": timestamp})[0] in {400, 403}

    def test_what_is_taken_back_while_it_is_renewed_is_not_renewed(
        self, *, authority, clock, question, trust, monkeypatch
    ):
        found = authority.judge(trust.identity.certificate, clock.now)
        authority.revoke("agent-001", clock.now)
        monkeypatch.setattr(authority, "judge", lambda *_: found)  # of the book as it was before
        status, answer = self.answer(authority, clock, question)
        assert (status, answer["error"]["code"]) == (403, "CERTIFICATE_REFUSED")
        assert len(authority.book().rows[1:]) == 1

    def test_an_authority_that_cannot_sign_says_nothing_of_itself(self, authority, clock, question):
        (authority.folder / "center.key").unlink()
        status, answer = self.answer(AuthorityFolder(authority.folder), clock, question)
        assert status == 503
        assert str(authority.folder) not in json.dumps(answer)


class TestRevocations:
    """What was taken back is learned, whatever fails on the way."""

    @pytest.mark.usefixtures("desk")
    async def test_a_list_of_the_server_is_taken_and_kept(self, learned, trust, authority, clock):
        leaf = trust.identity.certificate
        url = "https://registry.example/lan/revocations"
        assert await learned.refresh(url)
        authority.revoke("agent-001", clock.now)
        assert await learned.refresh(url)
        assert trust.authority.judge("agent-001", leaf, clock.now) is None
        assert not await learned.refresh(url)
        assert learned.news == [1, 1]
        assert ["our own certificate was revoked" in text for text in learned.told] == [True]
        assert trust.keys.revocations_file.read_bytes() == trust.revocations.pem()

    async def test_what_fails_or_is_false_leaves_the_last_good_one(
        self, *, learned, desk, trust, authority, clock, tmp_path
    ):
        url = "https://registry.example/lan/revocations"
        authority.revoke("agent-001", clock.now)
        assert await learned.refresh(url)
        desk.trouble = FetchError("CONNECT_FAILED", "nobody is there")
        assert not await learned.refresh(url)
        assert not await learned.refresh(url)
        desk.trouble = None
        desk.desk = RenewalService(AuthorityFolder.create(tmp_path / "other", "Test", clock.now), clock)
        assert not await learned.refresh(url)
        assert len(trust.revocations) == 1
        assert [text.count("stay in force") for text in learned.told] == [0, 1, 1]

    async def test_where_there_never_was_a_list_none_is_said_to_be_in_force(self, learned, desk):
        desk.trouble = FetchError("CONNECT_FAILED", "nobody is there")
        assert not await learned.refresh("https://registry.example/lan/revocations")
        assert ["nothing is known of what was revoked" in text for text in learned.told] == [True]

    @pytest.mark.usefixtures("desk")
    async def test_the_care_of_an_agent_is_both_and_ends_with_it(self, trust, settings):
        has_changed = asyncio.Event()
        upkeep = CertificateTasks(trust, settings, has_changed.set)
        upkeep.start()
        async with asyncio.timeout(SECONDS):
            await has_changed.wait()
        await upkeep.stop()
        assert asyncio.all_tasks() == {asyncio.current_task()}
