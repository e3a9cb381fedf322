"""The skills of Anthropic's SDK against a registry: python anthropic_skills.py URL TOKEN FOLDER; prints JSON.

FOLDER holds ``minutes``, a skill that states no version, and ``broken``, one that breaks a rule.
"""

import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import anthropic  # type: ignore[import-not-found]  # it has an environment of its own
from anthropic.lib import files_from_dir  # type: ignore[import-not-found]  # as above

url, token, folder = sys.argv[1:]
client = anthropic.Anthropic(base_url=url, api_key=token)
skills = client.beta.skills


def refusal(call: Any) -> dict[str, Any]:
    """Return the error that a call raises."""
    try:
        call()
    except anthropic.APIStatusError as error:
        return {"kind": type(error).__name__, "status": error.status_code, "message": error.message}
    return {}


minutes = Path(folder) / "minutes"
created = skills.create(display_name="Minutes", files=files_from_dir(minutes))
(minutes / "a.txt").write_text("changed\n")
version = skills.versions.create(created.id, files=files_from_dir(minutes))
with zipfile.ZipFile(io.BytesIO(skills.versions.download("latest", skill_id=created.id).read())) as archive:
    content = {name: archive.read(name).decode() for name in archive.namelist()}
found = {
    "created": created.to_dict(mode="json"),
    "version": version.to_dict(mode="json"),
    "retrieved": skills.retrieve(created.id).latest_version_id,
    "listed": [one.id for one in skills.list(limit=1)],
    "versions": [one.id for one in skills.versions.list(created.id, limit=1)],
    "described": skills.versions.retrieve(version.id, skill_id=created.id).description,
    "content": content,
    "broken": refusal(lambda: skills.create(files=files_from_dir(Path(folder) / "broken"))),
    "version_deleted": skills.versions.delete(version.id, skill_id=created.id).type,
    "left": [one.id for one in skills.versions.list(created.id)],
    "deleted": skills.delete(created.id).type,
    "gone": refusal(lambda: skills.retrieve(created.id)),
}
json.dump(found, sys.stdout)
