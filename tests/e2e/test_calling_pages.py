"""What the pages about functions, APIs and webhooks show is so."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.publishing import write_skill

import skillwire
from skillwire.executions.webhooks import DELAYS, sign, webhook_secret
from skillwire.folder.executors import check_header_name
from skillwire.folder.publish import PreparedSkill, prepare
from skillwire.protocols.skill_sharing.judge import JUDGES

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page, language):
    text = (DOCS / page).read_text()
    return re.findall(rf"^```{language}(?: [^\n]*)?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_service_of_the_page_publishes_its_functions(tmp_path):
    first, *rest = blocks("how-to/publish-a-function.md", "python")
    shown = "print([one.name for one in publisher.functions], forecast(Place('Oslo')), crunch([1.0, 2.0], None))"
    program = "\n".join([first.partition('if __name__ == "__main__":')[0], *rest, shown])
    program = program.replace("if context.is_cancelled", "if context and context.is_cancelled")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        env={**os.environ, "SKILLWIRE_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['forecast', 'crunch'] [20.0, 20.0] 3.0\n"


def test_every_option_of_the_decorator_is_on_the_page():
    text = (DOCS / "how-to/publish-a-function.md").read_text()
    written = (skillwire.Publisher.skill.__doc__ or "").partition("Raises:")[0]
    options = re.findall(r"^            (\w+(?:, \w+)*): ", written, re.MULTILINE)
    assert len(options) > 8
    for option in {name for names in options for name in names.split(", ")} - {"function"}:
        assert f"`{option}`" in text or f"`{option}=`" in text, option


def test_the_folder_of_the_page_passes_every_rule(tmp_path):
    manifest = blocks("how-to/wrap-an-api.md", "toml")[0]
    folder = write_skill(tmp_path, "order-status", {"skill.toml": manifest})
    prepared = prepare(folder, "acme", judges=JUDGES)
    assert isinstance(prepared, PreparedSkill), prepared.findings
    assert prepared.findings == ()
    action, sharing = prepared.skill.action, prepared.skill.sharing
    assert action is not None
    assert sharing is not None
    assert action.permissions == (("https://api.example.com",), ("ORDERS_API_KEY",))
    assert sharing.inputs[1].schema == {"enum": ["en", "de"]}


def test_the_header_fields_of_the_page_may_be_set():
    text = (DOCS / "how-to/wrap-an-api.md").read_text()
    allowed = re.search(r"^Allowed header fields (.*?)names that begin", text, re.MULTILINE | re.DOTALL)
    refused = re.search(r"or carry sessions are refused: (.*?) and similar", text, re.DOTALL)
    assert allowed is not None
    assert refused is not None
    for name in re.findall(r"`([A-Z][\w-]+)`", allowed[1]):
        assert check_header_name(name)
    for name in re.findall(r"`([A-Z][\w-]+)`", refused[1]):
        with pytest.raises(skillwire.ValidationError):
            check_header_name(name)


def test_the_receiver_of_the_page_believes_what_is_signed_and_nothing_else(capsys):
    [program] = blocks("topics/webhooks.md", "python")
    names: dict[str, Any] = {}
    exec(program, names)  # noqa: S102  # the page's own text
    secret = webhook_secret(b"k" * 32, "anna")
    body = b'{"type":"execution.completed","data":{"execution_id":"exec-1"}}'
    headers = dict(sign(secret, "msg_1", body, time.time()))
    assert names["receive"](secret, headers, body) == "204 No Content"
    assert capsys.readouterr().out == "execution.completed exec-1\n"
    assert names["receive"](secret, headers, body + b" ") == "400 Bad Request"


def test_the_pauses_of_the_page_are_those_of_the_table():
    text = (DOCS / "topics/webhooks.md").read_text()
    row = re.search(r"^\| next \| (.*) \| never \|$", text, re.MULTILINE)
    assert row is not None
    units = {"s": 1, "min": 60, "h": 3600}
    told = [int(number) * units[unit] for number, unit in (cell.split(" ") for cell in row[1].split(" | "))]
    assert tuple(told) == DELAYS
