"""The SDK's public names, pinned: what a user may rely on changes only on purpose."""

import pytest

import skillwire
import skillwire.testing
from skillwire.version import VERSION


def test_public_names():
    assert dir(skillwire) == [
        "AsyncClient",
        "AsyncLan",
        "AsyncRemoteSkill",
        "AsyncRpcSkills",
        "BlobPart",
        "CallContext",
        "Client",
        "Comparison",
        "ConflictError",
        "CreatedBlob",
        "DecodeError",
        "DescribedSkill",
        "Deviation",
        "ExecutionError",
        "FetchError",
        "FileContent",
        "Finding",
        "InstallPolicy",
        "Lan",
        "LanChange",
        "LanMember",
        "LanNotice",
        "LanScene",
        "LanSkill",
        "LanSnapshot",
        "ListedSkill",
        "LockedSkill",
        "NotFoundError",
        "OriginRecord",
        "OutputBlob",
        "PendingError",
        "Place",
        "Placement",
        "Plan",
        "PlannedSkill",
        "PreparedCall",
        "Publisher",
        "RemoteBlob",
        "RemoteExecution",
        "RemoteFailure",
        "RemoteSkill",
        "Report",
        "RpcSkills",
        "Run",
        "RunError",
        "SceneResult",
        "Settings",
        "SkillPage",
        "SkillRef",
        "SkillwireError",
        "StorageError",
        "TrustError",
        "UsageError",
        "ValidationError",
        "Verification",
        "__version__",
        "verify_webhook",
    ]


def test_every_public_name_is_there():
    for name in dir(skillwire):
        assert getattr(skillwire, name) is not None
    assert skillwire.__version__ == VERSION


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Clinet'"):
        skillwire.Clinet  # noqa: B018  # the access is what is tested


def test_the_simulations_are_names_of_one_module():
    assert dir(skillwire.testing) == ["FakeNetwork", "SimulatedPublisher", "VirtualClock"]
    for name in dir(skillwire.testing):
        assert getattr(skillwire.testing, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'FakeNetwrok'"):
        skillwire.testing.FakeNetwrok  # noqa: B018  # the access is what is tested
