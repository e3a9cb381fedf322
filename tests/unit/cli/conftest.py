"""Commands that run in this process, where what they print is captured."""

import json

import pytest

from skillwire.cli.main import run


@pytest.fixture
def told(request, capsys):
    """Run ``skillwire``, the words of the module's ``GROUP`` first; return standard output and standard error."""
    group = getattr(request.module, "GROUP", ())

    def call(*arguments, status=0):
        assert run([*group, *map(str, arguments)]) == status
        return capsys.readouterr()

    return call


@pytest.fixture
def document(told):
    """Run ``skillwire ... --json``; return what it prints."""

    def call(*arguments, status=0):
        return json.loads(told(*arguments, "--json", status=status).out)

    return call
