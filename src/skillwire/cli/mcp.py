"""``skillwire mcp``: serve skills to an MCP host on standard input and output, and configure an MCP client for that.

Only our entry in the configuration of a client changes: every other byte of the file, its comments and its mode stay.
The edited text is read again before it is written, and must be the old document with exactly this change; otherwise the
file is refused. An entry names environment variables, never their values.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
from contextlib import suppress
from dataclasses import replace
from difflib import unified_diff
from json.decoder import JSONDecoder
from pathlib import Path, PurePath
from typing import Any, Final, Literal, NamedTuple

import click
from click.core import ParameterSource

from skillwire import limits
from skillwire.adapters.files.atomic import home_directory, read_bounded, storage_errors, write_atomically
from skillwire.adapters.lines import input_lines
from skillwire.bridges.mcp import require_sdk
from skillwire.cli.options import (
    GroupWithDefaultList,
    dry_run_option,
    log_format_option,
    publisher_option,
    server_config_option,
    token_option,
)
from skillwire.cli.output import Output, bold, failure, output_options, success
from skillwire.cli.serve import configure_server
from skillwire.errors import ConflictError, DecodeError, NotFoundError, SkillwireError, SourceLocation, UsageError
from skillwire.model.url import parse_url
from skillwire.resolver.context import as_finding
from skillwire.trust.guarded_json import load_json
from skillwire.trust.guarded_toml import load_toml

#: What is said about folders that are served here.
_OF_FOLDERS: Final = frozenset({"pins", "execute", "grant_all", "config", "publisher"})
_MOST: Final = 32 * limits.MIB  # Claude Code keeps its history in the same file
_TOKENS: Final = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING: Final = re.compile(r'"(?:\\.|[^"\\\n])*"|,(?=\s*[}\]])')
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class McpGroup(GroupWithDefaultList):
    """``skillwire mcp FOLDER`` is ``skillwire mcp serve FOLDER``."""

    default, takes_words = "serve", True


@click.group(cls=McpGroup)
def command() -> None:
    """Serve skills to an MCP host, or add them to its configuration. With FOLDER or --server alone it serves."""


@command.command()
@click.argument("folders", metavar="[FOLDER]...", nargs=-1, type=click.Path())
@click.option("--server", metavar="URL", help="Relay to this endpoint instead, such as https://example.com/mcp.")
@token_option
@click.option("--pin", "pins", multiple=True, metavar="NAME", help="Offer this skill as its own tool; repeatable.")
@click.option("--execute", is_flag=True, help="Let the tools run granted skills; see skillwire grant.")
@click.option("--grant-all", is_flag=True, help="With --execute, run every skill in these folders without a grant.")
@server_config_option
@publisher_option
@log_format_option
def serve(
    *,
    folders: tuple[str, ...],
    server: str | None,
    token: str | None,
    pins: tuple[str, ...],
    execute: bool,
    grant_all: bool,
    config: str | None,
    publisher: str,
    log_format: str,
) -> None:
    """Serve the skills in each FOLDER to the MCP host that starts this command, on standard input and output.

    In the host's configuration, set the command to skillwire and its arguments to mcp FOLDER. The command ends with its
    input. skillwire serve offers the same over HTTP at /mcp; --server connects a host to such an endpoint, with the
    credential stored by skillwire auth login.
    """
    _check_source("skillwire mcp", folders, server)
    if server is not None:
        _relay(server, token)
        return
    require_sdk()  # first: its extra has the packages of servers too
    from skillwire.server.stdio import serve_mcp  # noqa: PLC0415  # takes a while to import

    configuration = configure_server(config, log_format, grant_all=grant_all, workers=None)
    if execute:
        configuration = replace(configuration, runs=replace(configuration.runs, execute_skill=True))
    serve_mcp(folders, configuration, input_lines(limits.RPC_REQUEST_BYTES), pins, publisher=publisher)


def _endpoint_of(server: str) -> str:
    """Return the URL of the user's endpoint: of a bare origin, ``/mcp``."""
    url = parse_url(server if "://" in server else f"https://{server}")
    return str(url._replace(path="/mcp") if url.target == "/" else url)


def _relay(server: str, token: str | None) -> None:
    from skillwire.client.mcp_relay import run_relay  # noqa: PLC0415  # loads msgspec

    def write(line: bytes) -> None:
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()

    asyncio.run(run_relay(_endpoint_of(server), token, input_lines(limits.RPC_REQUEST_BYTES), write))


def _check_source(command: str, folders: tuple[str, ...], server: str | None) -> None:
    """Check that there are folders or a server, and no option that has no effect on a relay, since the server decides.

    Raises UsageError (``USAGE``, ``FOLDER_MISSING``).
    """
    if bool(folders) == (server is not None):
        fix = f"Write {command} FOLDER, or {command} --server URL."
        raise UsageError("USAGE", "give folders of skills, or the URL of a server", fix=fix)
    if missing := [one for one in folders if not Path(one).exists()]:
        url = missing[0] if "://" in missing[0] else "URL"
        fix = f"Give the path of a folder, or a server: {command} --server {url}."
        raise UsageError("FOLDER_MISSING", "there is no such folder", place=SourceLocation(missing[0]), fix=fix)
    context = click.get_current_context()
    for parameter in context.command.params if server is not None else ():
        given = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if given and parameter.name in _OF_FOLDERS:
            fix = "Leave it out; the server's own configuration decides."
            raise UsageError("USAGE", f"{parameter.opts[0]} applies to folders, and not to --server", fix=fix)


class McpClient(NamedTuple):
    """A client: its files for a project and for a user, the key of its servers, and how it names a variable."""

    project: str
    user: str
    key: str
    variable: str = "${{env:{}}}"
    has_comments: bool = True


#: Client → where and how it is configured, as its own documentation says.
CLIENTS: Final = {
    "claude-code": McpClient(".mcp.json", ".claude.json", "mcpServers", "${{{}}}", has_comments=False),
    "cursor": McpClient(".cursor/mcp.json", ".cursor/mcp.json", "mcpServers"),
    "codex": McpClient("", ".codex/config.toml", "mcp_servers"),
    "vscode": McpClient(".vscode/mcp.json", "", "servers"),
}
_client_option = click.option(
    "--client", required=True, type=click.Choice(list(CLIENTS)), help="Whose configuration to change."
)
_name_option = click.option("--name", default="skills", show_default=True, help="Name of the server in the client.")
_scope_option = click.option(
    "-g", "--global", "for_user", is_flag=True, help="Change your own configuration instead of the project's."
)


@command.command()
@click.argument("folders", metavar="[FOLDER]...", nargs=-1, type=click.Path(file_okay=False))
@_client_option
@_name_option
@click.option("--server", metavar="URL", help="Use the skills of this server instead, such as https://example.com/mcp.")
@click.option("--execute", is_flag=True, help="Let the tools run granted skills; see skillwire grant.")
@click.option("--env", "variables", metavar="NAME", multiple=True, help="Variable to pass on by name; repeatable.")
@_scope_option
@dry_run_option
@output_options
def install(
    *,
    output: Output,
    folders: tuple[str, ...],
    client: str,
    name: str,
    server: str | None,
    execute: bool,
    variables: tuple[str, ...],
    for_user: bool,
    dry_run: bool,
) -> None:
    """Add the skills in each FOLDER to the configuration of an MCP client, as a server that it starts.

    The file is the project's, or with --global your own; Codex has only the latter. Everything else in it stays as it
    is, and a second run changes nothing. For a registry or another server, give --server URL in place of FOLDER.
    Credentials are not written: store them with skillwire auth login, or name environment variables with --env.
    """
    _check_source("skillwire mcp install", folders, server)
    if any("\udc80" <= character <= "\udcff" for character in "".join(folders)):
        raise UsageError("USAGE", "the path of a folder is not UTF-8, as configurations are", fix="Rename the folder.")
    if server is not None:
        arguments = ["mcp", "--server", _endpoint_of(server)]
    else:
        arguments = ["mcp", *(os.path.abspath(one) for one in folders)]  # noqa: PTH100  # links are kept
    entry: dict[str, Any] = {"command": _program(), "args": [*arguments, *(["--execute"] if execute else [])]}
    if wrong := [one for one in variables if not _VARIABLE.fullmatch(one)]:
        message = "--env takes the name of a variable, never a value"
        raise UsageError("USAGE", message, fix=f"Write --env {wrong[0].partition('=')[0] or 'NAME'}.")
    if client == "vscode":
        entry = {"type": "stdio", **entry}
    if variables and client == "codex":
        entry["env_vars"] = list(variables)
    elif variables:
        entry["env"] = {one: CLIENTS[client].variable.format(one) for one in variables}
    _change(output, client, name, entry, for_user=for_user, dry_run=dry_run)
    if server is None:
        try:
            require_sdk()
        except UsageError as error:
            output.finding(as_finding(error)._replace(level="warning"))


@command.command()
@_client_option
@_name_option
@_scope_option
@dry_run_option
@output_options
def uninstall(*, output: Output, client: str, name: str, for_user: bool, dry_run: bool) -> None:
    """Remove what install added to the configuration of an MCP client, and nothing else."""
    _change(output, client, name, None, for_user=for_user, dry_run=dry_run)


def _program() -> str:
    """Return the name of this program, or its path where PATH leads to it only inside a virtual environment."""
    folder, is_virtual = Path(sys.executable).parent, sys.prefix != sys.base_prefix
    own = shutil.which("skillwire", path=folder)
    usual = [one for one in os.get_exec_path() if not is_virtual or Path(one) != folder]
    found = shutil.which("skillwire", path=os.pathsep.join(usual))
    return own if own and not (found and Path(found).samefile(own)) else "skillwire"


def _change(
    output: Output, client: str, name: str, entry: dict[str, Any] | None, *, for_user: bool, dry_run: bool
) -> None:
    """Set the entry, or remove it for None, and print what changed."""
    if not _NAME.fullmatch(name):
        raise UsageError("USAGE", f"{ascii(name)[:80]} cannot name a server", fix="Use letters, digits, - and _.")
    path = _file_of(client, for_user=for_user)
    data = read_bounded(path, _MOST + 1)
    try:
        text = "" if data is None else data.decode()
    except UnicodeDecodeError as error:
        raise DecodeError("ENCODING", "the file is not UTF-8", place=SourceLocation(str(path))) from error
    after = edited(CLIENTS[client], text, name, entry, str(path))
    state: Literal["installed", "replaced", "removed", "unchanged"] = "installed"
    if after == text or entry is None:
        state = "unchanged" if after == text else "removed"
    elif text.strip() and name in _parse(CLIENTS[client], text, str(path)).get(CLIENTS[client].key, {}):
        state = "replaced"

    # Without lines around it: they may hold secrets of other entries.
    lines = [*unified_diff(text.splitlines(), after.splitlines(), str(path), str(path), n=0, lineterm="")]
    if state != "unchanged" and not dry_run:
        _write(path, data, after)
        if not after and path.parent.name == PurePath(CLIENTS[client].user or CLIENTS[client].project).parent.name:
            with suppress(OSError):  # it has other files
                path.parent.rmdir()
    output.document({
        "schema": "skillwire/mcp-install/1", "client": client, "name": name, "file": str(path), "state": state,
        "diff": lines, "dry_run": dry_run,
    })  # fmt: skip
    if dry_run:
        for line in lines:
            output.verbatim({"+": success, "-": failure}.get(line[:1], str)(line))
    verb = f"would be {state}: " if dry_run and state != "unchanged" else f"{state}: "
    output.note(success(verb), bold(name), f"  {path}")
    if entry is not None and not dry_run:
        undo = f"skillwire mcp uninstall --client {client} --name {name}" + (" --global" if for_user else "")
        output.hint("remove it:" if state == "replaced" else "undo it:", undo)


def _file_of(client: str, *, for_user: bool) -> Path:
    row = CLIENTS[client]
    if client == "codex":
        return Path(os.environ.get("CODEX_HOME") or home_directory() / ".codex") / "config.toml"
    if for_user and not row.user:
        message, fix = f"{client} is configured by project", "Leave --global out, and run it in the project's folder."
        raise UsageError("USAGE", message, fix=fix)
    return Path(os.path.realpath(home_directory() / row.user if for_user else Path.cwd() / row.project))


def _write(path: Path, before: bytes | None, after: str) -> None:
    """Write the file with its mode, unless another program changed it meanwhile; remove one that is empty now."""
    if read_bounded(path, _MOST + 1) != before:
        raise ConflictError(
            "CLIENT_CONFIG", "another program changed the file meanwhile", place=SourceLocation(str(path))
        )
    with storage_errors(path):
        mode = path.stat().st_mode & 0o777 if before is not None else 0o644
        if not after:
            path.unlink()
            return
        write_atomically(path, after.encode(), mode=mode)
        path.chmod(mode)


def edited(client: McpClient, text: str, name: str, entry: dict[str, Any] | None, source: str) -> str:
    """Return a configuration with the entry ``name``, or without it for None; an empty text for an empty document.

    Raises DecodeError for a file that cannot be read, ConflictError (``CLIENT_CONFIG``) for one that cannot be edited
    or has another entry of that name, NotFoundError (``CLIENT_CONFIG``) without an entry to remove.
    """
    is_toml = client.key == "mcp_servers"
    try:
        before = _parse(client, text, source) if text.strip() else {}
    except SkillwireError as error:
        error.fix = "Correct the file at this place, and run the command again. Nothing was changed."
        raise
    place = SourceLocation(source)
    servers = before.get(client.key, {})
    if not isinstance(servers, dict):
        raise ConflictError("CLIENT_CONFIG", f"{client.key} holds no servers by name", place=place)
    known = servers.get(name)
    if known == entry and entry is not None:
        return text
    if known is None and entry is None:
        fix = "Check --client, --name and --global."
        raise NotFoundError("CLIENT_CONFIG", f"there is no server named {name}", place=place, fix=fix)
    if known is not None and not _is_ours(known):
        raise ConflictError("CLIENT_CONFIG", f"{name} is a server that skillwire did not install", place=place)
    wanted = {**servers, name: entry} if entry is not None else {key: servers[key] for key in servers if key != name}
    after = (_edit_toml if is_toml else _edit_json)(client, text, name, entry)
    try:
        read = _parse(client, after, source) if after.strip() else {}
    except SkillwireError:  # such as a table of TOML that is written in one line
        read = {}
    if read.get(client.key, {}) != wanted or {**read, client.key: None} != {**before, client.key: None}:
        message = "the file has a form that cannot be edited safely"
        raise ConflictError("CLIENT_CONFIG", message, place=place, fix=f"Edit {client.key} by hand.")
    return after if read else ""


def _is_ours(entry: Any) -> bool:
    arguments = entry.get("args") if isinstance(entry, dict) else None
    is_command = isinstance(entry, dict) and PurePath(str(entry.get("command"))).stem == "skillwire"
    return is_command and isinstance(arguments, list) and arguments[:1] == ["mcp"]


def _parse(client: McpClient, text: str, source: str) -> dict[str, Any]:
    if client.key == "mcp_servers":
        return dict(load_toml(text.encode(), source=source))
    strict = _strict(_plain(text)) if client.has_comments else text.removeprefix("\ufeff")
    document = load_json(strict.encode(), max_bytes=_MOST, source=source)
    if not isinstance(document, dict):
        raise DecodeError("JSON_SYNTAX", "the file holds no JSON object", place=SourceLocation(source, 1, 1))
    return document


def _plain(text: str) -> str:
    """Return JSON with spaces in place of comments and of a byte order mark."""
    blank = lambda found: found[0] if found[0][0] == '"' else re.sub(r"[^\n]", " ", found[0])  # noqa: E731  # short
    return _TOKENS.sub(blank, text.replace("\ufeff", " ", 1) if text.startswith("\ufeff") else text)


def _strict(plain: str) -> str:
    """Return JSON with spaces in place of commas behind the last member."""
    return _TRAILING.sub(lambda found: " " if found[0] == "," else found[0], plain)


class _Member(NamedTuple):
    key: str
    begin: int
    value: int
    end: int


def _skip(text: str, at: int) -> int:
    while text[at].isspace():
        at += 1
    return at


def _members(strict: str, at: int) -> tuple[list[_Member], int]:
    """Return the members of the object that begins at ``at``, and where its brace closes."""
    found = []
    at = _skip(strict, at + 1)
    while strict[at] != "}":
        key, end = JSONDecoder().raw_decode(strict, at)
        value = _skip(strict, _skip(strict, end) + 1)
        _, end = JSONDecoder().raw_decode(strict, value)
        found.append(_Member(key, at, value, end))
        at = _skip(strict, end)
        at = _skip(strict, at + 1) if strict[at] == "," else at
    return found, at


def _edit_json(client: McpClient, text: str, name: str, entry: dict[str, Any] | None) -> str:
    if not text.strip():
        return json.dumps({client.key: {name: entry}}, indent=2, ensure_ascii=False) + "\n"
    strict = _strict(_plain(text))
    top = _skip(strict, 0)
    members, _ = _members(strict, top)
    holder = next((one for one in members if one.key == client.key), None)
    if holder is None:
        return _inserted(text, top, client.key, {name: entry})
    servers, _ = _members(strict, holder.value)
    known = next((one for one in servers if one.key == name), None)
    if entry is None:
        assert known is not None  # noqa: S101  # it was found in the document
        text = _removed(text, holder.value, name)
        members, _ = _members(_strict(_plain(text)), top)
        holder = next(one for one in members if one.key == client.key)
        was_added_too = len(servers) == 1 and "\n" in text[holder.value : holder.end]
        return _removed(text, top, client.key) if was_added_too else text
    if known is not None:
        begin = text.rfind("\n", 0, known.begin) + 1
        indent = text[begin : known.begin] if not text[begin : known.begin].strip() else ""
        return text[: known.value] + _rendered(entry, indent, _newline(text)) + text[known.end :]
    return _inserted(text, holder.value, name, entry)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _rendered(value: Any, indent: str, newline: str, unit: str = "  ") -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", f"{newline}{indent}")


def _inserted(text: str, at: int, key: str, value: Any) -> str:
    """Return the text with one more member in the object at ``at``: on a line of its own, where the others are."""
    plain = _plain(text)
    members, close = _members(_strict(plain), at)
    last = len(text[:close].rstrip())
    begin = text.rfind("\n", 0, close) + 1
    has_comma = bool(members) and "," in plain[members[-1].end : close]
    if begin <= last or text[begin:close].strip():  # the brace stands behind other text: all in one line
        piece = f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        piece = f" {piece}" if members else piece
    else:
        line = text.rfind("\n", 0, members[-1].begin) + 1 if members else 0
        first = text[line : members[-1].begin] if members else ""
        unit = "\t" if "\t" in first + text[begin:close] else "  "
        indent = first if members and not first.strip() else text[begin:close] + unit
        newline = _newline(text)
        piece = f"{newline}{indent}{json.dumps(key)}: {_rendered(value, indent, newline, unit)}"
    piece += "," if has_comma else ""
    if members and not has_comma:
        end = members[-1].end
        return f"{text[:end]},{text[end:last]}{piece}{text[last:]}"
    return text[:last] + piece + text[last:]


def _removed(text: str, at: int, key: str) -> str:
    """Return the text without a member of the object at ``at``: the reverse of :func:`_inserted`."""
    plain = _plain(text)
    members, close = _members(_strict(plain), at)
    number = next(number for number, one in enumerate(members) if one.key == key)
    begin, end = len(text[: members[number].begin].rstrip()), members[number].end
    following = members[number + 1].begin if number + 1 < len(members) else close
    if (comma := plain.find(",", end, following)) >= 0:
        return text[:begin] + text[comma + 1 :]
    if number:
        comma = plain.index(",", members[number - 1].end)
        return text[:comma] + text[comma + 1 : begin] + text[end:]
    return text[:begin] + text[end:]


def _edit_toml(client: McpClient, text: str, name: str, entry: dict[str, Any] | None) -> str:
    """Return the text with the table of the entry at its end or in its place, or without it."""
    head = rf"""[ \t]*\[[ \t]*{client.key}[ \t]*\.[ \t]*(?:{name}|"{name}"|'{name}')[ \t]*"""
    lines = text.splitlines(keepends=True)
    begin = next((at for at, line in enumerate(lines) if re.match(rf"{head}\]", line)), None)
    newline = _newline(text)
    fields = [f"{field} = {json.dumps(value, ensure_ascii=False)}" for field, value in (entry or {}).items()]
    table = "" if entry is None else newline.join([f"[{client.key}.{name}]", *fields, ""])
    if begin is None:
        with_end = text + ("" if text.endswith(("\n", "\r")) or not text else newline)
        return with_end + (newline if text else "") + table
    end = last = begin + 1
    while end < len(lines) and (not re.match(r"[ \t]*\[", lines[end]) or re.match(rf"{head}\.", lines[end])):
        end += 1
        last = end if lines[end - 1].strip() and not lines[end - 1].lstrip().startswith("#") else last
    if entry is None and begin and not lines[begin - 1].strip():
        begin -= 1
    return "".join([*lines[:begin], table, *lines[last:]])
