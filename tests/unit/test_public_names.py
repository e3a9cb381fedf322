"""The SDK's public names, pinned: what a user may rely on changes only on purpose."""

import pytest

import skillwire
import skillwire.lan
import skillwire.rpc
import skillwire.testing
from skillwire.version import VERSION


def test_public_names():
    assert dir(skillwire) == [
        "AsyncClient",
        "AsyncRemoteSkill",
        "CallContext",
        "CallEvent",
        "Client",
        "ConflictError",
        "DecodeError",
        "ExecutionError",
        "FetchError",
        "FileContent",
        "Finding",
        "InstallLocation",
        "InstallPlan",
        "InstallPolicy",
        "InstallReport",
        "LockedSkill",
        "NotFoundError",
        "OriginRecord",
        "PendingError",
        "PlannedSkill",
        "PreparedCall",
        "Publisher",
        "RemoteExecution",
        "RemoteSkill",
        "Settings",
        "SkillRef",
        "SkillwireError",
        "SourceLocation",
        "StorageError",
        "TrustError",
        "UpdateComparison",
        "UsageError",
        "ValidationError",
        "Verification",
        "__version__",
        "tools",
    ]
    assert len(dir(skillwire)) <= 36  # 35 and __version__


def test_the_other_names_are_in_modules_of_their_own():
    lan = "AsyncLan Lan LanChange LanMember LanScene LanSkill LanSnapshot SceneResult"
    rpc = "AsyncRpcSkills BlobPart CreatedBlob DescribedSkill ListedSkill OutputBlob RemoteBlob RemoteFailure RpcSkills"
    assert skillwire.lan.__all__ == lan.split()
    assert skillwire.rpc.__all__ == [*rpc.split(), "RunError", "RunResult", "SkillPage", "verify_webhook"]


def test_every_public_name_is_there():
    for name in dir(skillwire):
        assert getattr(skillwire, name) is not None
    assert skillwire.__version__ == VERSION


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Clinet'"):
        skillwire.Clinet  # noqa: B018  # the access is what is tested


def test_the_simulations_are_names_of_one_module():
    assert skillwire.testing.__all__ == [
        "AsyncSimulatedPublisher",
        "FakeNetwork",
        "HttpResponse",
        "SimulatedPublisher",
        "VirtualClock",
    ]
    for name in skillwire.testing.__all__:
        assert getattr(skillwire.testing, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'FakeNetwrok'"):
        getattr(skillwire.testing, "FakeNetwrok")  # noqa: B009  # a type checker would refuse the plain form
