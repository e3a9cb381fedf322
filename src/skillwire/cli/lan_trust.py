"""``skillwire lan trust``: trust single keys of the local network by comparing six words."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from skillwire.cli.lan_options import discovery_option, read_lan
from skillwire.cli.lan_view import check_names
from skillwire.cli.options import LazyModule, confirm
from skillwire.cli.output import bold, dim, output_options, success
from skillwire.errors import FetchError, TrustError, UsageError

if TYPE_CHECKING:
    from skillwire.adapters.files import keys, lan_trust
    from skillwire.cli import lan
    from skillwire.cli.documents import LanTrustDocument
    from skillwire.cli.output import Output
    from skillwire.protocols.skill_discovery.settings import LanSettings
    from skillwire.trust import certificates, words
else:  # load cryptography and sockets
    keys = LazyModule("adapters.files.keys")
    lan_trust = LazyModule("adapters.files.lan_trust")
    lan = LazyModule("cli.lan")
    certificates = LazyModule("trust.certificates")
    words = LazyModule("trust.words")


@click.command("trust")
@click.argument("agent", required=False, callback=lambda *given: given[2] and check_names(*given))
@click.option(
    "--words", "expected", metavar="WORDS", help="The six words that AGENT shows; without them, you are asked."
)
@click.option("--forget", is_flag=True, help="Trust the key of AGENT no more.")
@discovery_option
@output_options
def command(*, output: Output, agent: str | None, expected: str | None, forget: bool, discovery: str | None) -> None:
    """Trust the key of AGENT after comparing six words; without AGENT, show the words of this machine's agent.

    Run it without AGENT on the other machine, and compare the words there with those shown here. The key then counts as
    verified on this machine without an authority. A running server reads the trusted keys when it starts.
    """
    settings = read_lan(None, lan=True, interfaces=(), discovery=discovery)
    assert settings is not None  # noqa: S101  # only without a network it is
    if settings.group_key_file:
        raise UsageError("USAGE", "all agents share one group key", fix="Compare the files of the group key instead.")
    store = keys.LanKeys()
    trusted = store.trusted()
    if agent is None:
        own = lan_trust.load_trust(settings)
        leaf = certificates.read_leaf(own.identity.certificate)
        assert leaf is not None  # noqa: S101  # it is our own
        _show(output, own.agent_id, leaf.key.digest, is_trusted=True)
        output.table([dim("trusted"), name] for name in sorted(trusted))
        return
    if forget:
        if agent not in trusted:
            raise UsageError("USAGE", f"no key of {agent} is trusted", fix="List them: skillwire lan trust.")
        store.keep_trusted({name: key for name, key in trusted.items() if name != agent})
        _show(output, agent, trusted[agent], is_trusted=False)
        return
    digest = asyncio.run(_digest_of(settings, agent))
    shown = " ".join(words.words_of(digest))
    if expected is None:
        output.note(bold(agent), "  ", shown)
        agreed = confirm(f"Does skillwire lan trust on {agent} show the same six words?")
    else:
        agreed = expected.lower().split() == shown.split()
    if not agreed:
        message = f"the six words of {agent} were not confirmed; its key has the words {shown}"
        raise TrustError("DISC_004", message, fix=f"Run skillwire lan trust on {agent}, and pass its words: --words.")
    store.keep_trusted(trusted | {agent: digest})
    _show(output, agent, digest, is_trusted=True)
    output.line(success("trusted "), bold(agent))


async def _digest_of(settings: LanSettings, agent_id: str) -> bytes:
    """Return the digest of an agent's key, which has to answer now."""
    async with lan.make_agent(settings) as agent:
        await agent.discover()
        if (digest := agent.key_digest_of(agent_id)) is not None:
            return digest
    message = f"no agent {agent_id} was heard"
    raise FetchError("DISC_001", message, fix="Start its server with --lan; skillwire lan lists the agents.")


def _show(output: Output, agent: str, digest: bytes, *, is_trusted: bool) -> None:
    shown = " ".join(words.words_of(digest))
    document: LanTrustDocument = {
        "schema": "skillwire/lan-trust/1",
        "agent_id": agent,
        "words": shown,
        "trusted": is_trusted,
    }
    output.document(document)
    output.line(bold(agent), "  ", shown)
