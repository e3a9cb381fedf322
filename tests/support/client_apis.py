"""How the APIs of other registries are called without their clients: one function publishes the files of a skill."""

import hashlib
import io
import zipfile

HUB = "/api/v1"


async def publish_to_hub(site, files, *, by, slug="notes", version="1.0.0", owner=""):
    """Publish as ``clawhub`` does: a ticket for each file, its bytes, and then all of them as a version."""
    stored = []
    for path, text in files.items():
        data = text if isinstance(text, bytes) else text.encode()
        announced = {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        ticket = await site.ask("POST", f"{HUB}/skills/-/upload-url", announced, by=by)
        if ticket.status != 200:
            return ticket
        where = ticket.json()["uploadUrl"].removeprefix("http://127.0.0.1:8000")
        received = await site.ask("POST", where, by=by, body=data)
        if received.status != 200:
            return received
        stored.append({**announced, "storageId": received.json()["storageId"]})
    document = {"slug": slug, "displayName": slug, "version": version, "changelog": "", "files": stored}
    if owner:
        document["ownerHandle"] = owner
    return await site.ask("POST", f"{HUB}/skills", document, by=by)


def unzipped(content):
    """Return path → bytes of an archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


HOSTED = "/v1/skills"


def form(files, folder="notes", **fields):
    """Return the header fields and the body of a form with these files, as an SDK sends it."""
    boundary = b"boundary-of-the-form"
    parts = [(f'name="{name}"', b"", value.encode()) for name, value in fields.items()]
    for path, text in files.items():
        data = text if isinstance(text, bytes) else text.encode()
        place = (f"{folder}/{path}" if folder else path).replace('"', "%22")
        parts.append((f'name="files[]"; filename="{place}"', b"Content-Type: application/octet-stream\r\n", data))
    body = b"".join(
        b"--%s\r\nContent-Disposition: form-data; %s\r\n%s\r\n%s\r\n" % (boundary, head.encode(), more, data)
        for head, more, data in parts
    )
    return {"Content-Type": f"multipart/form-data; boundary={boundary.decode()}"}, body + b"--%s--\r\n" % boundary


async def host(site, files, *, by, skill="", folder="notes", query=""):
    """Create a skill, or a version of one, over the API of hosted skills."""
    fields, body = form(files, folder, display_name="Notes")
    path = f"{HOSTED}/{skill}/versions" if skill else HOSTED
    return await site.ask("POST", f"{path}?beta=true{query}", by=by, body=body, fields=fields)


APM = "/v1/packages"


async def publish_to_apm(site, archive, *, by, package="ann/notes", version="1.0.0"):
    """Publish as ``apm publish`` does."""
    path = f"{APM}/{package}/versions/{version}"
    return await site.ask("PUT", path, by=by, body=archive, fields={"Content-Type": "application/zip"})
