"""Skills as bytes: what the ledger kept before a field was added is still read."""

import msgspec
from tests.support.publishing import write_skill

from skillwire.folder.publish import PreparedSkill, prepare
from skillwire.model.packed_skills import pack_skill, unpack_skill


def prepared(folder, **files):
    outcome = prepare(write_skill(folder, "leads-sync", files), "acme")
    assert isinstance(outcome, PreparedSkill)
    return outcome.skill


def test_what_skill_discovery_calls_it_is_kept(tmp_path):
    skill = prepared(tmp_path, **{"skill.toml": 'skill_type = "enterprise-skill"\n'})
    assert skill.skill_type == "enterprise-skill"
    assert unpack_skill(pack_skill(skill)) == skill


def test_a_row_from_before_there_were_types_and_requirements_is_read(tmp_path):
    skill = prepared(tmp_path, **{"skill.toml": 'skill_type = "enterprise-skill"\n'})
    *earlier, _, _, _ = msgspec.msgpack.decode(pack_skill(skill))
    assert unpack_skill(msgspec.msgpack.encode(earlier)) == skill._replace(skill_type=None)
