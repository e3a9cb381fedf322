"""A small endpoint of the Skills Protocol on loopback, with nothing of ours in it and nothing beyond the text.

Each skill behaves in a way of its own: ``leads.sync`` counts the lines of a blob and leaves a file, ``leads.broken``
fails, ``leads.hostile`` says what nobody should. ``encoding`` is not known here, as in the text.
"""

import base64
import hashlib
import json
from typing import Any

from tests.support.loopback_server import Handler, LoopbackServer

HIDDEN = "\x1b[31mred\x1b[0m \u202eevil\u202c \U000e0041"
SKILLS: dict[str, dict[str, Any]] = {
    "leads.sync": {
        "description": "Counts leads of a sheet.",
        "inputs": {
            "sheet": {"type": "blob", "description": "The sheet.", "required": True},
            "days": {"type": "integer", "description": "How far back.", "default": 7},
        },
        "permissions": {"network": ["https://*.salesforce.com"], "secrets": ["SALESFORCE_API_KEY"]},
        "runtime": {"language": "python", "entrypoint": "code/main.py", "export": "main"},
        "tags": ["crm", "leads"],
    },
    "leads.broken": {"description": "Always fails."},
    "leads.hostile": {
        "description": f"Says {HIDDEN}.",
        "inputs": {f"a {HIDDEN}": {"type": HIDDEN, "description": HIDDEN, "required": True}},
        "permissions": {"network": [HIDDEN], "secrets": HIDDEN},
        "runtime": [HIDDEN],
        "tags": [HIDDEN, 5],
    },
    "leads.reading": {"kind": "instruction", "description": "Says how leads are read."},
}


#: Method → the names that it takes, as the text has them.
TAKES: dict[str, set[str]] = {
    "list_skills": {"namespace", "detail", "limit", "cursor"},
    "describe_skill": {"name", "version", "detail"},
    "read_skill_file": {"name", "version", "path"},
    "execute_skill": {"name", "args", "version", "input_blobs", "timeout_ms"},
    "create_blob": {"content", "kind"},
    "read_blob": {"blob_id", "mode", "max_bytes"},
}


class _RefusalError(Exception):
    """An error of JSON-RPC."""


class RpcEndpoint(LoopbackServer):
    """Serves while the context lasts. ``calls`` are method and parameters of all that came, in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.blobs: dict[str, bytes] = {}
        super().__init__(_Handler, endpoint=self)
        self.address = f"{self.host}/rpc"

    def answer(self, method: str, params: dict[str, Any]) -> Any:
        self.calls.append((method, params))
        if method not in TAKES:
            raise _RefusalError(-32601, "Method not found")
        if unknown := params.keys() - TAKES[method]:
            raise _RefusalError(-32602, f"Invalid params: {sorted(unknown)}")
        return getattr(self, f"_{method}")(params)

    def _list_skills(self, params: dict[str, Any]) -> Any:
        begin, after, most = params.get("namespace", ""), params.get("cursor", ""), params.get("limit", 50)
        names = [name for name in sorted(SKILLS) if name.startswith(begin) and name > after]
        page = [_manifest(name) for name in names[:most]]
        return {"skills": page, "next_cursor": page[-1]["name"] if len(names) > most else None}

    def _describe_skill(self, params: dict[str, Any]) -> Any:
        if params["name"] not in SKILLS:
            raise _RefusalError(-32001, "Skill not found")
        frontmatter = {"name": "Lead Sync", "short_description": "Counts."}
        return {"skill": {"manifest": _manifest(params["name"]), "skill_md_frontmatter": frontmatter}}

    def _read_skill_file(self, params: dict[str, Any]) -> Any:
        if params["path"] != "SKILL.md":
            raise _RefusalError(-32002, "File not found")
        return {"content": f"---\nname: Lead Sync\n---\n\n# Leads\n\n{HIDDEN}\n"}

    def _execute_skill(self, params: dict[str, Any]) -> Any:
        if params["name"] == "leads.broken":
            error = {"type": "code_failed", "message": f"It broke {HIDDEN}."}
            log = f"Oh\n{HIDDEN}\n"
            return {"status": "failed", "run_id": "run-2", "summary": "", "error": error, "logs_preview": log}
        run = {"status": "completed", "run_id": "run-1", "summary": "Done."}
        if params["name"] == "leads.hostile":
            return {**run, "output": {"said": HIDDEN}}
        args = params["args"]
        data = self.blobs[args["sheet"]]
        left = {"blob_id": self._keep(data.upper()), "kind": "text/csv", "size_bytes": len(data)}
        output = {"leads": data.count(b"\n"), "days": args["days"]}
        return {**run, "output": output, "output_blobs": [{**left, "name": "out/LEADS.csv"}]}

    def _create_blob(self, params: dict[str, Any]) -> Any:
        data = params["content"].encode()
        return {"blob_id": self._keep(data), "size_bytes": len(data)}

    def _read_blob(self, params: dict[str, Any]) -> Any:
        data = self.blobs[params["blob_id"]]
        return {"content": data.decode(), "size_bytes": len(data), "truncated": False}

    def _keep(self, data: bytes) -> str:
        blob_id = f"blob:{base64.b32encode(hashlib.sha256(data).digest()[:10]).decode().lower()}"
        self.blobs[blob_id] = data
        return blob_id


class _Handler(Handler):
    endpoint: RpcEndpoint

    def do_POST(self) -> None:
        request = json.loads(self.body())
        answer = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            answer["result"] = self.endpoint.answer(request["method"], request["params"])
        except _RefusalError as refusal:
            answer["error"] = {"code": refusal.args[0], "message": refusal.args[1]}
        except (TypeError, KeyError) as error:
            answer["error"] = {"code": -32602, "message": f"Invalid params: {error}"}
        self.send(200 if self.path == "/rpc" else 404, answer)

    def do_GET(self) -> None:
        self.send(404 if self.path != "/rpc" else 405, b"{}")


def _manifest(name: str) -> dict[str, Any]:
    return {"name": name, "version": "0.1.0", "kind": "action", "namespace": "leads", **SKILLS[name]}
