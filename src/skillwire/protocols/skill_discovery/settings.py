"""The figures of discovery on a local network, in one place. Spec: SDP §5.1, §8.2, §13.2; specs §3."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DiscoverySettings:
    """How fast, how patient and how careful a node is. Durations are in seconds.

    Args:
        heartbeat_interval: between two heartbeats of a skill.
        suspect_missed: heartbeats missed until a skill is suspected, and probed.
        unhealthy_missed: heartbeats missed until it is UNHEALTHY.
        retry_count: how often a suspect is asked for a sign of life before that.
        eviction: of silence, after which it is forgotten.
        good_beats: in a row that make an UNHEALTHY skill HEALTHY again.
        flap_limit: how often it may become UNHEALTHY before it is held down; each time counts half after
            ``flap_half_life``.
        flap_half_life: see ``flap_limit``.
        hold_down: that a flapping skill has to be good before it is HEALTHY again.
        mass_share: of all skills; when more than this share is silent, the network is suspected and nothing evicted.
        mass_least: skills that have to be silent for that.
        hint_interval: between two probes of a skill that mDNS alone tells of.
        stale: of silence, after which a skill is forgotten even when the network is suspected.
        announce_interval: between two registrations of a skill that has nothing new to say.
        retries: pauses before what was not acknowledged is sent again; short, since 30 % may be lost.
        reports: pauses before a change of status is sent again, which nobody acknowledges.
        goodbye_pauses: before a goodbye is sent again; whoever leaves does not wait.
        answer_delay: shortest and longest pause before an answer to the group, so that not all answer at once.
        searches: pauses before a question is asked again.
        patience: that answers to a discovery are collected at most.
        quiet: without news, after which a search for one provider ends before its patience: longer than the longest
            pause before an answer.
        quiet_all: the same of a search for all; longer than the first two pauses before a question is asked again, less
            the pause before an answer, so that each is asked twice.
        unheard: that a skill is waited for of which only others have told.
        not_found_patience: that others may still know a scene that one agent does not know.
        window: that a message's timestamp may differ from our clock.
        proof: that an address stays proven.
        challenge: in which a challenge has to be answered.
        rate: datagrams a second that are read from one source, beside the heartbeats that it owes.
        burst: datagrams that a source may send at once.
        amplification: how many times larger than a question the answers may be, before the address is proven.
        registry_seen: that an agent which acknowledged is counted on to acknowledge again.
    """

    heartbeat_interval: float = 5.0
    suspect_missed: int = 2
    unhealthy_missed: int = 3
    retry_count: int = 3
    eviction: float = 30.0
    good_beats: int = 2
    flap_limit: float = 3.0
    flap_half_life: float = 60.0
    hold_down: float = 30.0
    mass_share: float = 0.15
    mass_least: int = 3
    hint_interval: float = 30.0
    stale: float = 600.0
    announce_interval: float = 120.0
    retries: tuple[float, ...] = (0.15, 0.15, 0.2, 0.2, 0.25, 0.3, 0.3)
    reports: tuple[float, ...] = (0.1, 0.1, 0.15, 0.15, 0.15, 0.15, 0.2, 0.2, 0.25, 0.25)
    goodbye_pauses: tuple[float, ...] = (0.1, 0.15)
    answer_delay: tuple[float, float] = (0.02, 0.12)
    searches: tuple[float, ...] = (0.3, 0.4, 0.5, 0.5)
    patience: float = 2.0
    quiet: float = 0.15
    quiet_all: float = 0.4
    unheard: float = 1.5
    not_found_patience: float = 0.6
    window: float = 30.0
    proof: float = 600.0
    challenge: float = 10.0
    rate: float = 20.0
    burst: float = 60.0
    amplification: float = 3.0
    registry_seen: float = 240.0
