"""When a discovery has heard enough to end before its patience does **[ours]**.

Answers to a question come within the longest pause before an answer and a way forth and back. So what was asked is
answered when, after the last news, a quiet time has passed that is longer than that. Three things keep it open:

- nothing has come that is of use: whoever wants one provider waits for one that is well, and certified where it has to
  be;
- somebody has told of a skill that has not spoken for itself. Whoever answers tells of all that it lists, so the loss
  of one agent's own answer is seen by what the others tell, and the next question is waited for; though not for ever,
  since it may be gone;
- who offers it is about to register with us, and how it is, is not known before. Who has registered is well until a
  beat says otherwise, which follows at once; where that beat is lost, the search ends as if it were well.

Patience ends all of it. Spec: SDP §3.3; specs §3 "Answers to a multicast wait 20-120 ms at random".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from skillwire.protocols.skill_discovery.messages import HealthStatus

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from skillwire.protocols.skill_discovery.events import Found
    from skillwire.protocols.skill_discovery.listing import Listed
    from skillwire.protocols.skill_discovery.settings import DiscoverySettings


class Enough(NamedTuple):
    """What is enough to end a discovery before its patience.

    Args:
        quiet: seconds without news that end it.
        least: seconds that it takes at least, such as for what comes otherwise than by multicast.
        is_one: whether one provider is wanted that may be called; any answer is of use otherwise.
        use_unverified: whether that one may be one whose key nobody certified.
    """

    quiet: float
    least: float = 0.0
    is_one: bool = False
    use_unverified: bool = False


def one_provider(settings: DiscoverySettings, *, use_unverified: bool, least: float = 0.0) -> Enough:
    """Return what is enough for who wants to call somebody."""
    return Enough(settings.quiet, least, is_one=True, use_unverified=use_unverified)


def all_there_are(settings: DiscoverySettings, *, least: float = 0.0) -> Enough:
    """Return what is enough for who wants to see everybody: so long that a lost question was asked again."""
    return Enough(settings.quiet_all, least)


def is_of_use(enough: Enough, found: Collection[Found], listed: Sequence[Listed] | None) -> bool:
    """Whether an answer has come that is what was wanted.

    Args:
        enough: what is.
        found: what answers have told.
        listed: what is registered with us of what was asked for; None where no registry is kept.
    """
    if not enough.is_one:
        return bool(found)
    if listed is None:
        return any(one.agent_id and (one.is_verified or enough.use_unverified) for one in found)
    told = {(one.record.skill_id, one.record.endpoint) for one in found}
    return any(
        one.health.status is HealthStatus.HEALTHY
        and (one.is_verified or enough.use_unverified)
        and (one.registration.skill_id, one.registration.endpoint) in told
        for one in listed
    )


def unheard_of(found: Collection[Found], listed: Sequence[Listed] | None) -> list[Found]:
    """Return the skills that have not spoken for themselves.

    Who offers them has not registered; or, where ``listed`` is None, has not proven to.
    """
    if listed is None:
        return [one for one in found if not one.agent_id]
    heard = {(one.registration.skill_id, one.registration.endpoint) for one in listed}
    return [one for one in found if (one.record.skill_id, one.record.endpoint) not in heard]
