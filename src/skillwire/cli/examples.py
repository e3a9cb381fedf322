"""Examples of every command, for ``--help`` and the man pages: each line belongs to the command that it calls."""

from __future__ import annotations

from typing import Final

import click

_MOST: Final = 6  # of a command in its help
EXAMPLES: Final = """\
skillwire init pdf-forms
skillwire init report --script --manifest
skillwire check
skillwire check skills --fix
skillwire build skills -o site --base-url https://example.com
skillwire serve skills
skillwire serve skills --lan --grant-all
skillwire share skills/pdf-forms
skillwire share skills/pdf-forms --once --for 10m
skillwire find csv --from example.com
skillwire find --lan
skillwire show example.com/csv-profile
skillwire show example.com/csv-profile --body
skillwire add example.com/csv-profile
skillwire add owner/repo/skills/notes@^1.2 --agent claude-code
skillwire add --frozen
skillwire list
skillwire outdated
skillwire update csv-profile
skillwire update csv-profile --to 1.2.0
skillwire remove csv-profile
skillwire verify
skillwire call example.com/working-days start=2026-04-02 days=3
skillwire call example.com/working-days --inputs inputs.json -o answer.json
skillwire call lan:org-data-read query=Keller
skillwire doctor
skillwire publish skills/csv-profile --registry https://r.example
skillwire yank acme/csv-profile@1.0.0 --reason 'wrong totals' --registry https://r.example
skillwire deprecate acme/csv-profile --successor acme/tables --reason 'see acme/tables' --registry https://r.example
skillwire registry init alice
skillwire registry whoami --registry https://r.example
skillwire registry namespace create acme --registry https://r.example
skillwire registry namespace list --registry https://r.example
skillwire registry namespace prove acme --dns acme.example --registry https://r.example
skillwire registry namespace rename acme acme-tools --registry https://r.example
skillwire registry member list acme --registry https://r.example
skillwire registry member add acme bob publisher --registry https://r.example
skillwire registry member remove acme bob --registry https://r.example
skillwire registry token create ci --scope publish --expires 90d --registry https://r.example
skillwire registry token list --registry https://r.example
skillwire registry token revoke p3aojyouc4msnbff --registry https://r.example
skillwire registry account link bob --issuer https://login.example.com --subject 4711 --registry https://r.example
skillwire registry access acme/csv-profile private --registry https://r.example
skillwire registry share acme/csv-profile bob --registry https://r.example
skillwire registry rename acme/csv acme/csv-profile --registry https://r.example
skillwire registry status acme/csv-profile@1.0.0 quarantined --reason 'under review' --registry https://r.example
skillwire registry audit --verify --registry https://r.example
skillwire registry export backup
skillwire registry import backup
skillwire registry blobs move --to s3 --store postgresql://db.example/skillwire
skillwire registry migrate --to postgresql://skillwire@db.example/skillwire
skillwire registry stats --registry https://r.example
skillwire validate weather.json
skillwire marketplace import owner/repo -o skills
skillwire marketplace export skills
skillwire mcp skills
skillwire mcp serve skills --execute --pin working-days
skillwire mcp install skills --client claude-code --dry-run
skillwire mcp install --server https://example.com --client codex
skillwire mcp uninstall --client claude-code
skillwire rpc skills --execute
skillwire grant add skills/working-days
skillwire grant list
skillwire grant revoke working-days
skillwire worker --workers 4
skillwire inbox list
skillwire inbox show exec-6f1c2b3a
skillwire inbox claim exec-6f1c2b3a
skillwire inbox release exec-6f1c2b3a
skillwire inbox complete exec-6f1c2b3a picked=true
skillwire inbox reject exec-6f1c2b3a --reason 'out of stock'
skillwire token create ann --scope operator
skillwire token list
skillwire token rotate p3aojyouc4msnbff --overlap 2h
skillwire token revoke p3aojyouc4msnbff
skillwire top
skillwire top https://skills.example.com --once
skillwire cat example.com/csv-profile SKILL.md
skillwire diff csv-profile
skillwire which example.com/csv-profile --explain
skillwire executions list
skillwire executions show exec-6f1c2b3a
skillwire executions result exec-6f1c2b3a --timeout 30s
skillwire executions cancel exec-6f1c2b3a
skillwire auth login example.com
skillwire auth status
skillwire auth logout example.com
skillwire trust list
skillwire trust revoke example.com
skillwire lan
skillwire lan --json --for 10s
skillwire lan trust office-1f02ab
skillwire scene list
skillwire scene join auth
skillwire scene request auth --from example.com
skillwire dht serve
skillwire dht status
skillwire dht put example.com/csv-profile --capability table-read
skillwire dht get csv-profile
skillwire dht find --capability table-read
skillwire dht remove csv-profile
skillwire dht ping 192.0.2.7:6881
skillwire key show
skillwire key new
skillwire key enroll --registry https://r.example
skillwire key install certificate
skillwire ca init authority --name example
skillwire ca issue authority --request agent.csr -o certificate
skillwire ca renew authority
skillwire ca revoke authority office-1f02ab
skillwire ca list authority
skillwire explain ENDPOINT_FOREIGN
skillwire explain --schema skill.toml
skillwire config show --origin
skillwire config path
skillwire config check server.toml
skillwire config serve --config server.toml
skillwire completion bash
"""


def examples_of(path: str) -> list[str]:
    """Return the examples of a command, such as ``skillwire executions show``, and of the commands below it."""
    return [line for line in EXAMPLES.splitlines() if f"{line} ".startswith(f"{path} ")]


def add_examples(command: click.Command, path: str) -> None:
    """Let the help of a command, and of the commands below it, end with examples."""
    command.epilog = "\n".join(["\b", "Examples:", *(f"  {line}" for line in examples_of(path)[:_MOST])])
    for name, part in command.commands.items() if isinstance(command, click.Group) else ():
        add_examples(part, f"{path} {name}")
