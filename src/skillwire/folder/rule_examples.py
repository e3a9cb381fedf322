"""An example of what each lint rule finds, for ``skillwire explain``: the pages of the docs are not installed.

``docs/reference/lint-rules.md`` shows the same; a test compares the two.
"""

from __future__ import annotations

from typing import Final

EXAMPLES: Final[dict[str, str]] = {
    "NAME_FOLDER": "---\nname: pdf-tools    # in the folder pdf-forms",
    "NAME_RULE": "---\nname: PDF_Forms",
    "DESCRIPTION_LENGTH": "description: ...more than 1,024 characters, white space at the ends included...",
    "COMPATIBILITY_LENGTH": "compatibility: ...more than 500 characters...",
    "FIELD_FORM": "allowed-tools:\n  - Read\n  - Bash(git:*)",
    "FIELD_EMPTY": "license:",
    "FIELD_UNKNOWN": "licence: MIT",
    "FLOW_STYLE": 'metadata: {author: example-corp, version: "1.0.0"}',
    "FRONTMATTER_HYPHENS": "description: Fills forms --- also large ones.",
    "FRONTMATTER_YAML": "metadata:\n  sign: =",
    "BYTE_ORDER_MARK": "EF BB BF 2D 2D 2D 0A    the first bytes of the file",
    "SKILL_MD_CASE": "pdf-forms/skill.md",
    "SYMLINK_TEXT": "$ cat SKILL.md\n../shared/pdf-forms/SKILL.md",
    "ALLOWED_TOOLS_COMMA": "allowed-tools: Read, Grep, Bash(git:*)",
    "BODY_EMPTY": "---\nname: pdf-forms\ndescription: Fills PDF forms.\n---",
    "BODY_LINES": "a body of 500 lines or more",
    "BODY_TOKENS": "a body of 20,000 characters or more, four of which are taken for a token",
    "VERSION_MISSING": "---\nname: pdf-forms\ndescription: Fills PDF forms.\n---",
    "VERSION_FORM": 'metadata:\n  version: "1.0"',
    "MANIFEST_UNKNOWN": 'capabilites = ["org-data-read"]',
    "MANIFEST_DIFFERS": 'version = "1.1.0"  # SKILL.md says 1.0.0',
    "ENTRYPOINT_ABSENT": (
        '[runtime]\nlanguage = "python"\nentrypoint = "code/main.py"  # the folder has scripts/main.py'
    ),
    "DESCRIPTOR_FORM": '{"name": "PDF forms"}',
    "DESCRIPTOR_DIFFERS": (
        'skill.toml:       id = "example-corp/forms"\ndescriptor.json:  "id": "example-corp/pdf-forms"'
    ),
    "IDENTIFIER_COLLISION": "documents/pdf-forms/SKILL.md\noffice/pdf-forms/SKILL.md",
    "FILE_EXCLUDED": ".DS_Store  __pycache__/  notes.md~  .git/  node_modules/",
    "FILE_PRIVATE": ".env  .netrc  .npmrc  id_ed25519  client.p12  .aws/",
    "FILE_SPECIAL": "$ mkfifo pdf-forms/pipe",
    "FILE_UNREADABLE": "$ chmod 000 pdf-forms/references/forms.md",
    "LINK_COPIED": "$ ln -s ../shared/forms.md references/forms.md    and shared/ is in the folder",
    "LINK_OUTSIDE": "$ ln -s ~/notes/forms.md references/forms.md",
    "LINK_CIRCLE": "$ ln -s .. references/up",
    "PATH_ODD": "references/Übersicht.md  notes[1].md  what?.md",
    "FILES_MANY": "a folder of more than 1,000 files",
    "FILES_LARGE": "a folder of more than 50 MiB",
    "LINK_BROKEN": "See [the forms](reference/forms.md).    <!-- the folder is references/ -->",
    "LINK_ABSOLUTE": "See [the forms](/home/me/skills/pdf-forms/forms.md).",
    "REFERENCE_DEPTH": "SKILL.md links references/forms.md, which alone links references/fields.md",
    "HIDDEN_CHARACTERS": "Fills forms.[U+E0069 x30]    tag characters: invisible, and read by models",
    "HIDDEN_IN_FILE": 'if user != "root[U+202E]":    # a direction override reorders what you see',
    "SECRET": 'token = "****************************************"    # a GitHub token stands here',
    "PIPE_TO_SHELL": "curl -fsSL https://example.com/install.sh | sh",
    "NETWORK_UNDECLARED": "import requests    # no [permissions] network, nothing in compatibility",
    "SCRIPT_NOT_EXECUTABLE": "-rw-r--r--  scripts/fill.py    which begins with #!/usr/bin/env python3",
    "SCRIPT_LINE_ENDS": "#!/bin/sh\\r\\n",
    "INDEX_SCHEMA": '{"$schema": "https://agentskills.io/schema/0.2.0", "skills": []}',
    "INDEX_ENTRY": '{"name": "PDF Forms", "type": "skill-md", "url": "file:///srv/SKILL.md"}',
    "INDEX_TYPE": '{"name": "pdf-forms", "type": "skill"}',
    "INDEX_DIGEST": '{"digest": "SHA256-C4D5E6F7"}',
    "INDEX_NAME_TWICE": '[{"name": "pdf-forms"}, {"name": "pdf-forms"}]',
    "URL_MUTABLE": '{"url": "https://raw.githubusercontent.com/example/skills/main/pdf-forms/SKILL.md"}',
    "ARTIFACT_ABSENT": '{"url": "/.well-known/agent-skills/pdf-form/SKILL.md"}',
    "ARTIFACT_DIGEST": "SKILL.md was edited on the server after the index was written",
}
