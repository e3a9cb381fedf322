"""What a folder says for Skill Sharing: a ``descriptor.json`` as it is, else ``skill.toml``, else defaults.

Spec: specs §0: an instruction alone is ``knowledge``, an action is an ``api``, unless the folder says otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from skillwire.folder.stated_access import decode_access
from skillwire.model.access import Access
from skillwire.model.digest import Digest
from skillwire.model.run_blob import PATTERN
from skillwire.model.sharing import SharedInput, Sharing

if TYPE_CHECKING:
    from skillwire.folder.load import LoadedFolder
    from skillwire.folder.manifest import Input

_DESCRIPTOR: Final = "descriptor.json"
_CAPABILITY: Final = {"instruction": "knowledge", "action": "api"}
_BLOB: Final = "blob"


def share(folder: LoadedFolder, kind: str) -> Sharing:
    """Return what ``folder`` says; ``kind`` is ``instruction`` or ``action``."""
    manifest, written = folder.manifest, folder.descriptor or {}
    return Sharing(
        name=_text(written, "name") or _title(folder),
        description=_text(written, "description") or folder.description,
        version=_text(written, "version") or folder.version,
        capability_type=_text(written, "capability_type") or manifest.capability_type or _CAPABILITY[kind],
        tags=_tags(folder),
        inputs=tuple(_input(name, value) for name, value in manifest.inputs.items()),
        auth=manifest.auth,
        output=manifest.output,
        endpoint=manifest.endpoint,
        descriptor=next((Digest.of(bytes(file.content)) for file in folder.files if file.path == _DESCRIPTOR), None),
    )


def access_of(folder: LoadedFolder) -> Access:
    """Return who may see the skill: what ``skill.toml`` says, else ``descriptor.json``, else everybody."""
    if "access" in folder.manifest.document:
        return folder.manifest.access
    written = folder.descriptor or {}
    return decode_access(written["access"]) if "access" in written else Access.PUBLIC


def _text(document: Any, field: str) -> str | None:
    value = document.get(field)
    return value if isinstance(value, str) else None


def _title(folder: LoadedFolder) -> str:
    return folder.skill_md.metadata.get("title") or folder.name.replace("-", " ").title()


def _tags(folder: LoadedFolder) -> tuple[str, ...]:
    written = (folder.descriptor or {}).get("tags")
    if isinstance(written, list):
        return tuple(tag for tag in written if isinstance(tag, str))
    return folder.manifest.tags


def _input(name: str, value: Input) -> SharedInput:
    """Return an input as Skill Sharing has it: a blob is handed over as a text, its id."""
    if value.input_type != _BLOB:
        return SharedInput(name, value.input_type, value.description, value.required, value.default, value.schema)
    schema = {**(value.schema or {}), "pattern": PATTERN}
    return SharedInput(name, "string", value.description, value.required, value.default, schema)
