"""The Skills Protocol, clause by clause: what its text shows and demands of discovery."""

import json

import pytest
from tests.support.rpc import answer, call_rpc, publish, serving

#: The manifest of the text's example, as it stands there.
MANIFEST = """{
        "name": "salesforce.leads.sync",
        "version": "0.1.0",
        "description": "Sync leads from a sheet blob into Salesforce.",
        "kind": "action",
        "namespace": "salesforce",
        "tags": ["crm", "leads", "sync"],
        "runtime": {
          "language": "python",
          "entrypoint": "code/main.py",
          "export": "main"
        },
        "inputs": {
          "sheet_blob": {
            "type": "blob",
            "description": "Blob id of the source sheet"
          },
          "env": {
            "type": "string",
            "description": "Which Salesforce env"
          }
        },
        "permissions": {
          "network": ["https://*.salesforce.com"],
          "secrets": ["SALESFORCE_API_KEY"]
        }
      }"""
SKILL_TOML = """
name = "salesforce.leads.sync"
version = "0.1.0"
description = "Sync leads from a sheet blob into Salesforce."
kind = "action"
namespace = "salesforce"
tags = ["crm", "leads", "sync"]

[runtime]
language = "python"
entrypoint = "code/main.py"
export = "main"

[inputs.sheet_blob]
type = "blob"
description = "Blob id of the source sheet"

[inputs.env]
type = "string"
description = "Which Salesforce env"

[permissions]
network = ["https://*.salesforce.com"]
secrets = ["SALESFORCE_API_KEY"]
"""
#: The SKILL.md of the text's example of ``read_skill_file``, as it stands there.
SKILL_MD = """---
name: Salesforce Lead Sync
short_description: Sync leads from a sheet blob into Salesforce.
tags: [crm, leads, sync]
---

# Salesforce Lead Sync

This skill syncs lead data from a CSV blob into Salesforce...

## Usage

Call this skill with:
- `sheet_blob`: Blob ID containing CSV data
- `env`: Target environment ('dev', 'staging', 'prod')

## Example

```python
result = execute_skill(
    name='salesforce.leads.sync',
    args={'sheet_blob': 'blob:abc', 'env': 'prod'}
)
```"""
#: Paths that lead out of a skill, or would somewhere; the whole list is in tests/corpus.
ESCAPES = [
    "../outside.txt", "..", "resources/../../outside.txt", "resources/../SKILL.md", "/etc/passwd", "//etc/passwd",
    "C:\\Windows\\win.ini", "\\\\host\\share", "..\\outside.txt", "%2e%2e/outside.txt", "%2e%2e%2foutside.txt",
    "..%2foutside.txt", "%252e%252e/outside.txt", "SKILL.md\x00.png", "SKILL.md%00.png", "\uff0e\uff0e/outside.txt",
    "SKILL.md/", "", "/./SKILL.md", ".//../SKILL.md", "~/.ssh/id_rsa:x", "file:///etc/passwd", "CON",
    ".git/config",
]  # fmt: skip


@pytest.fixture(scope="module")
def rpc():
    return publish(
        leads_sync={
            "SKILL.md": SKILL_MD,
            "skill.toml": SKILL_TOML,
            "code/main.py": "def main(args): ...\n",
            "resources/schema.json": "{}",
        },
        contacts_export={
            "skill.toml": 'name = "salesforce.contacts.export"\nversion = "0.2.1"\nkind = "action"\n'
            'namespace = "salesforce"\n[runtime]\nentrypoint = "code/main.py"\n',
            "code/main.py": "def main(args): ...\n",
        },
        files={"skill.toml": 'namespace = "gdrive"'},
    ).rpc()


def ask(rpc, text):
    return answer(text.encode(), serving(rpc))


@pytest.mark.spec("SKP-list", "SKP-list-namespace", "SKP-list-order")
def test_the_example_of_list_skills(rpc):
    told = ask(
        rpc,
        """{
          "jsonrpc": "2.0",
          "id": "1",
          "method": "list_skills",
          "params": {
            "namespace": "salesforce",
            "detail": "summary",
            "limit": 50
          }
        }""",
    )
    export, sync = told["result"]["skills"]
    assert told == {"jsonrpc": "2.0", "id": "1", "result": {"skills": [export, sync], "next_cursor": None}}
    assert sync == {
        "name": "salesforce.leads.sync",
        "version": "0.1.0",
        "description": "Sync leads from a sheet blob into Salesforce.",
        "namespace": "salesforce",
        "kind": "action",
    }
    assert (export["name"], export["version"]) == ("salesforce.contacts.export", "0.2.1")


@pytest.mark.spec("SKP-example-describe", "SKP-manifest")
def test_the_example_of_describe_skill(rpc):
    told = ask(
        rpc,
        """{
          "jsonrpc": "2.0",
          "id": "2",
          "method": "describe_skill",
          "params": {
            "name": "salesforce.leads.sync",
            "detail": "summary"
          }
        }""",
    )
    skill = told["result"]["skill"]
    assert told == {"jsonrpc": "2.0", "id": "2", "result": {"skill": skill}}
    assert json.dumps(skill["manifest"]) == json.dumps(json.loads(MANIFEST))  # in the same order, too
    assert skill["skill_md_frontmatter"] == {
        "name": "Salesforce Lead Sync",
        "short_description": "Sync leads from a sheet blob into Salesforce.",
        "tags": ["crm", "leads", "sync"],
    }


@pytest.mark.spec("SKP-read")
def test_the_example_of_read_skill_file(rpc):
    told = ask(
        rpc,
        """{
          "jsonrpc": "2.0",
          "id": "3",
          "method": "read_skill_file",
          "params": {
            "name": "salesforce.leads.sync",
            "path": "SKILL.md"
          }
        }""",
    )
    assert told == {"jsonrpc": "2.0", "id": "3", "result": {"content": SKILL_MD}}


@pytest.mark.spec("SKP-read-escape", "SKP-read-restricted", "SKP-error-codes")
@pytest.mark.parametrize("path", ESCAPES)
def test_runtimes_must_reject_paths_that_attempt_to_escape(rpc, path):
    request = {"jsonrpc": "2.0", "id": 1, "method": "read_skill_file"}
    for name in ("salesforce.leads.sync", "skills.protocol.guide", "salesforce.none"):
        told = ask(rpc, json.dumps({**request, "params": {"name": name, "path": path}}))
        assert told["error"]["code"] == -32003
        assert told["error"]["data"]["code"].startswith("PATH_")
        assert told["error"]["data"]["place"] == "/params/path"
        assert told["error"]["data"]["fix"].startswith("Give a plain path relative to the skill's folder")
        assert "result" not in told


@pytest.mark.spec("SKP-read-restricted")
def test_runtimes_must_restrict_the_path_to_the_directory_of_the_skill(rpc):
    for path in (
        "code/main.py",
        "resources/schema.json",
        "./SKILL.md",
        "resources//schema.json",
        ".//./code/./main.py",
    ):
        assert "content" in call_rpc(rpc, "read_skill_file", name="salesforce.leads.sync", path=path)
    for path in ("resources/schema.json", "leads-sync/SKILL.md", "salesforce.leads.sync/SKILL.md"):
        told = ask(
            rpc,
            json.dumps(
                {
                    "jsonrpc": "2.0",
                    "id": 1,
                    "method": "read_skill_file",
                    "params": {"name": "gdrive.files", "path": path},
                }
            ),
        )
        assert told["error"]["code"] == -32002


@pytest.mark.spec("SKP-read-missing", "SKP-error-codes")
def test_runtimes_must_return_an_error_for_files_that_do_not_exist(rpc):
    told = ask(
        rpc,
        '{"jsonrpc": "2.0", "id": 1, "method": "read_skill_file",'
        ' "params": {"name": "salesforce.leads.sync", "path": "resources/examples.md"}}',
    )
    assert told["error"]["code"] == -32002
    assert told["error"]["data"]["code"] == "FILE_NOT_FOUND"


@pytest.mark.spec("SKP-error-codes", "SKP-error-data")
@pytest.mark.parametrize("method", ["describe_skill", "read_skill_file"])
def test_a_skill_that_is_not_there_has_its_code(rpc, method):
    params = {"name": "salesforce.none"} | ({"path": "SKILL.md"} if method == "read_skill_file" else {})
    told = ask(rpc, json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
    assert told["error"]["code"] == -32001
    assert told["error"]["data"] == {
        "code": "SKILL_NOT_FOUND",
        "fix": "List the skills with list_skills; a name is dotted, such as example.leads.sync.",
        "retryable": False,
        "details": {"name": "salesforce.none"},
    }


@pytest.mark.spec("SKP-guide")
def test_the_guide_is_loaded_without_parameters(rpc):
    request = {"jsonrpc": "2.0", "id": 1, "method": "load_skills_protocol_guide"}
    for sent in (request, {**request, "params": {}}):
        told = ask(rpc, json.dumps(sent))
        assert told["result"]["content"].startswith("---\nname: skills-protocol-guide\n")
