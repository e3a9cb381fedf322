"""The files of a new skill, in which the strict check finds only the placeholders."""

from __future__ import annotations

import re
from typing import Final

from skillwire.errors import ValidationError, documentation_link
from skillwire.model.skill import SKILL_MD, SKILL_TOML, FileContent, is_skill_name

#: What templates say where an author is to say something: ours, and those of the installers that most people use.
PLACEHOLDERS: Final = (
    "Describe in one or two sentences what this skill does.",
    "Say what the agent should do, step by step.",
    "Say what usually fails, and what to do then.",
    "A brief description of what this skill does",
    "Instructions for the agent to follow when this skill is activated.",
    "Describe when this skill should be used.",
    "Replace with description of the skill and when Claude should use it.",
    "# Insert instructions below",
)
_SKILL_MD: Final = """\
---
name: {name}
description: Describe in one or two sentences what this skill does. Use when the user asks for {words}.
license: Apache-2.0
metadata:
  version: "0.1.0"
---

# {title}

Say what the agent should do, step by step. It reads this text when it has chosen the skill by its description, so
keep it short; put long reference material into files under `references/` and link them from here.

## Steps

1. Look at what the user gave.
{run}
## When something goes wrong

Say what usually fails, and what to do then.
"""
_STEP: Final = """\
2. Do the work.
3. Show the result, and say what was left out.

"""
_STEP_WITH_SCRIPT: Final = """\
2. Run [the script](scripts/main.py), with what the user gave as JSON on its standard input:

   ```sh
   echo '{"name": "world"}' | scripts/main.py
   ```

3. Show the result, and say what was left out.

"""
_SCRIPT: Final = '''\
#!/usr/bin/env python3
"""Reads one JSON object from standard input and writes one to standard output."""

import json
import sys


def main(args):
    """Return the result for the arguments, a JSON object for a JSON object."""
    return {"greeting": f"Hello, {args.get('name', 'world')}!"}


if __name__ == "__main__":
    json.dump(main(json.load(sys.stdin)), sys.stdout)
    print()
'''
_SCHEMA_PAGE: Final = "docs/reference/schemas/skill-toml.json"
#: The first line is read by editors with Taplo, such as VS Code with Even Better TOML.
_SCHEMA: Final = "#:schema {url}\n"
_NO_SCHEMA: Final = """\
# An editor completes and checks this file with its schema: skillwire explain --schema skill.toml > ../skill-toml.json
# The first line is then: #:schema ../skill-toml.json
"""
_MANIFEST: Final = """\
{schema}# Fields beyond those of SKILL.md (skillwire explain --schema SKILL.md). Every field is optional.
kind = "{kind}"
access = "public"  # or restricted, or private
{rest}"""
_ACTION: Final = """
[runtime]
language = "python"
entrypoint = "scripts/main.py"
export = "main"

[permissions]
network = []  # such as "https://api.example.com"
secrets = []  # such as "EXAMPLE_API_KEY"

[inputs.name]
type = "string"
description = "Whom to greet"
"""


def scaffold(name: str, *, script: bool = False, manifest: bool = False) -> list[FileContent]:
    """Return the files of a new skill ``name``. Raises ValidationError (``NAME_FORM``)."""
    if not is_skill_name(name):
        meant = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:64]
        fix = f"Write a name such as {meant if is_skill_name(meant) else 'pdf-forms'}."
        raise ValidationError("NAME_FORM", f"{name!r} cannot name a skill", fix=fix)
    words = name.replace("-", " ")
    run = _STEP_WITH_SCRIPT if script else _STEP
    skill_md = _SKILL_MD.format(name=name, words=words, title=words.capitalize(), run=run)
    files = [FileContent(SKILL_MD, skill_md.encode())]
    if script:
        files.append(FileContent("scripts/main.py", _SCRIPT.encode(), executable=True))
    if manifest:
        kind, rest = ("action", _ACTION) if script else ("instruction", "")
        url = documentation_link(_SCHEMA_PAGE)
        schema = _SCHEMA.format(url=url) if url else _NO_SCHEMA
        files.append(FileContent(SKILL_TOML, _MANIFEST.format(schema=schema, kind=kind, rest=rest).encode()))
    return files
