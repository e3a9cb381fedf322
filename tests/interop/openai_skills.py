"""The skills of OpenAI's SDK against a registry: python openai_skills.py URL TOKEN FOLDER; prints JSON.

FOLDER holds ``review``, a skill that states no version; ``review.zip``, another version of it; ``other.zip``, another
skill; and ``broken``, one that breaks a rule.
"""

import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import openai

url, token, place = sys.argv[1:]
folder = Path(place)
# A field of another type than the SDK's is an error.
client = openai.OpenAI(base_url=f"{url}/v1", api_key=token, max_retries=0, _strict_response_validation=True)
skills = client.skills


def files_of(name: str) -> list[tuple[str, bytes]]:
    """Return the files of a skill, named as the SDK uploads a directory."""
    return [(str(path.relative_to(folder)), path.read_bytes()) for path in sorted((folder / name).iterdir())]


def content_of(archive: Any) -> dict[str, str]:
    """Return path → text of a downloaded .zip."""
    with zipfile.ZipFile(io.BytesIO(archive.read())) as files:
        return {name: files.read(name).decode() for name in files.namelist()}


def refusal(call: Any) -> dict[str, Any]:
    """Return the error that a call raises."""
    try:
        call()
    except openai.APIStatusError as error:
        kind = type(error).__name__
        return {"kind": kind, "code": error.code, "type": error.type, "message": error.message}
    return {}


created = skills.create(files=files_of("review"))
one = created.id
zipped = skills.versions.create(one, files=("review.zip", (folder / "review.zip").read_bytes()))
again = skills.versions.create(one, files=[("SKILL.md", (folder / "review" / "SKILL.md").read_bytes())], default=True)
found = {
    "created": created.to_dict(),
    "zipped": zipped.to_dict(),
    "again": again.version,
    "other": skills.create(files=(folder / "other.zip").open("rb")).id,
    "no_default": refusal(lambda: skills.versions.create(one, files=files_of("review"), default=False)),
    "retrieved": skills.retrieve(one).to_dict(),
    "listed": [each.id for each in skills.list(limit=1)],
    "versions": [each.version for each in skills.versions.list(one, limit=2)],
    "ascending": [each.version for each in skills.versions.list(one, limit=1, order="asc")],
    "first_page": skills.versions.list(one, limit=2).to_dict(),
    "ordered": refusal(lambda: skills.list(order="desc")),
    "described": skills.versions.retrieve(zipped.version, skill_id=one).to_dict(),
    "content": content_of(skills.versions.content.retrieve(created.default_version, skill_id=one)),
    "zipped_content": content_of(skills.versions.content.retrieve(zipped.version, skill_id=one)),
    "default_content": content_of(skills.content.retrieve(one)),
    "default_set": skills.update(one, default_version=again.version).default_version,
    "default_refused": refusal(lambda: skills.update(one, default_version=zipped.version)),
    "version_deleted": skills.versions.delete(again.version, skill_id=one).to_dict(),
    "default_left": skills.update(one, default_version=zipped.version).default_version,
    "broken": refusal(lambda: skills.create(files=files_of("broken"))),
    "absent": refusal(lambda: skills.versions.content.retrieve("9.9.9", skill_id=one)),
    "unknown": refusal(lambda: client.with_options(api_key="wrong").skills.retrieve(one)),
    "deleted": skills.delete(one).to_dict(),
    "gone": refusal(lambda: skills.retrieve(one)),
}
json.dump(found, sys.stdout)
