"""The examples of every command: each command has one, and each is read as its command's options and arguments."""

import shlex

import click
import pytest

from skillwire.cli.main import GROUPS, cli, examples_of

FILES = ("inputs.json", "agent.csr", "weather.json", "server.toml")
FOLDERS = ("skills/pdf-forms", "skills/working-days", "skills/csv-profile", "authority", "certificate", "backup")


def _context():
    return cli.make_context("skillwire", [], resilient_parsing=True)


def _commands(command, path=("skillwire",)):
    """Yield every command below ``command``, with the words that call it."""
    for name in command.list_commands(_context()) if isinstance(command, click.Group) else ():
        part = command.resolve_command(_context(), [name, "--help"])[1]
        yield (*path, name), part
        yield from _commands(part, (*path, name))


COMMANDS = dict(_commands(cli))


def test_every_command_is_looked_at():
    assert {path[1] for path in COMMANDS} == {name for section in GROUPS.values() for name in section}
    assert len(COMMANDS) > 90
    assert "\n  Examples:\n    skillwire serve skills\n" in cli.get_help(_context())


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_the_help_of_every_command_ends_with_an_example(path):
    shown = COMMANDS[path].get_help(click.Context(COMMANDS[path], info_name=path[-1], parent=_context()))
    first, *_ = examples_of(" ".join(path))
    assert f"\n  Examples:\n    {first}" in shown


@pytest.mark.parametrize("line", examples_of("skillwire"))
def test_an_example_is_read_by_its_command(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in FOLDERS:
        (tmp_path / folder).mkdir(parents=True)
    for file in FILES:
        (tmp_path / file).touch()
    words = shlex.split(line)
    path = max((one for one in COMMANDS if tuple(words[: len(one)]) == one), key=len)
    COMMANDS[path].make_context(path[-1], words[len(path) :], parent=_context())


def test_what_is_no_option_of_a_command_is_no_example():
    with pytest.raises(click.UsageError):
        COMMANDS["skillwire", "list"].make_context("list", ["--frozen"], parent=_context())
