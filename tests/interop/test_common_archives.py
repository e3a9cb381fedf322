"""Our client adds what common tools pack, and what older publishers list file by file."""

import json
import os
import shlex
import sys
from pathlib import Path

import pytest
from tests.interop.hosting import plain_server
from tests.interop.peers import find_peer, run
from tests.interop.skill_samples import ALL_BYTES, LONG_PATH, copy_examples, write_samples
from tests.interop.trees import executables, tree, trees

from skillwire.model.digest import Digest

NAME = "packed-by-others"
SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
COMMIT = "git init -q && git add . && git -c user.name=A -c user.email=a@example.com commit -q -m Pack"
#: As people type them in the skill's folder. The first word says what has to be installed.
COMMANDS = (
    "tar -czf $T .",
    "tar -czf $T *",
    "tar -czf $T --format=ustar .",
    "tar -czf $T --format=gnu .",
    "tar -czf $T --format=pax .",
    "tar -czf $T --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner .",
    "tar -cf - . | gzip -9 > $T",
    "tar -cf $W/it.tar . && gzip $W/it.tar && mv $W/it.tar.gz $T",
    "bsdtar -czf $T .",
    "bsdtar -czf $T --format=ustar *",
    "bsdtar -acf $Z *",
    "zip -qr $Z .",
    "zip -qr $Z *",
    "zip -qrX0 $Z .",
    "zip -qr - . | cat > $Z",
    f"{COMMIT} && git archive -o $T HEAD",
    f"{COMMIT} && git archive -o $Z HEAD",
    "python -m tarfile -c $T *",
    "python -m zipfile -c $Z *",
    "python -c 'import shutil; shutil.make_archive(\"'$W'/made\", \"gztar\")' && mv $W/made.tar.gz $T",
    "python -c 'import shutil; shutil.make_archive(\"'$W'/made\", \"zip\")' && mv $W/made.zip $Z",
    "npm_tar create $T .",
)


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / NAME
    for path, content in {
        "SKILL.md": f"---\nname: {NAME}\ndescription: What other tools pack.\n---\n\n# Packed\n".encode(),
        "scripts/run.sh": b"#!/bin/sh\necho ok\n",
        "assets/all.bin": ALL_BYTES,
        "assets/empty": b"",
        "references/with spaces.md": b"# Spaces\n",
        "references/日本語.md": b"# Characters\n",
        LONG_PATH: b"# Far down\n",
    }.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    (folder / "scripts" / "run.sh").chmod(0o755)
    return folder


def pack(command: str, folder: Path) -> Path:
    """Run ``command`` in ``folder`` and return the archive that it makes."""
    work = folder.parent / "packing"
    work.mkdir()
    archive = work / ("skill.zip" if "$Z" in command else "skill.tar.gz")
    tool = command.split(maxsplit=1)[0]
    found = [sys.executable] if tool == "python" else find_peer(tool)
    script = f'{tool}() {{ {shlex.join(found)} "$@"; }}\n{command}'
    variables = {"T": str(archive), "Z": str(archive), "W": str(work)}
    run(["sh", "-c", script], cwd=folder, home=work, variables=variables)
    return archive


def publish(archive: Path, site: Path) -> None:
    """Write a site whose one skill is ``archive``, as a hand-written 0.2.0 index names it."""
    folder = site / ".well-known" / "agent-skills"
    folder.mkdir(parents=True)
    archive.rename(folder / archive.name)
    entry = {
        "name": NAME,
        "type": "archive",
        "description": "What other tools pack.",
        "url": archive.name,
        "digest": Digest.of((folder / archive.name).read_bytes()),
    }
    (folder / "index.json").write_text(json.dumps({"$schema": SCHEMA, "skills": [entry]}))


class TestPacked:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_it_arrives_with_every_byte_and_mode(self, command, source, tmp_path, workplace):
        wanted, runnable = tree(source), executables(source)
        publish(pack(command, source), tmp_path / "site")
        with plain_server(tmp_path / "site") as url:
            workplace.skillwire("add", f"{url}/{NAME}", "--yes", "-a", "codex")
        assert trees(workplace.installed) == {NAME: wanted}
        assert executables(workplace.installed / NAME) == runnable == {"scripts/run.sh"}
        workplace.skillwire("verify")

    @pytest.mark.parametrize("command", ["tar -czf $T .", "bsdtar -czf $T .", "zip -qry $Z ."])
    def test_links_arrive_as_copies(self, command, source, tmp_path, workplace):
        (source / "references" / "latest.md").symlink_to("with spaces.md")
        (source / "docs").symlink_to("references")
        os.link(source / "assets" / "all.bin", source / "assets" / "again.bin")
        wanted = tree(source)
        wanted |= {f"docs/{path.name}": path.read_bytes() for path in (source / "references").glob("*.md")}
        wanted |= {LONG_PATH.replace("references", "docs"): b"# Far down\n"}
        publish(pack(command, source), tmp_path / "site")
        with plain_server(tmp_path / "site") as url:
            workplace.skillwire("add", f"{url}/{NAME}", "--yes", "-a", "codex")
        assert trees(workplace.installed) == {NAME: wanted}
        assert not [path for path in workplace.installed.rglob("*") if path.is_symlink()]

    @pytest.mark.parametrize(
        "command", [f"tar -czf $T -C .. {NAME}", f"{COMMIT} && git archive --prefix=it/ -o $Z HEAD"]
    )
    def test_a_folder_around_the_skill_is_refused_and_said(self, command, source, tmp_path, workplace):
        publish(pack(command, source), tmp_path / "site")
        with plain_server(tmp_path / "site") as url:
            said = workplace.skillwire("add", f"{url}/{NAME}", "--yes", "-a", "codex", status=1)
        assert "SKILL.md" in said
        assert not workplace.installed.exists()


class TestListed:
    """An index of 0.1.0, which publishers still write by hand: the files one by one, and no digests."""

    @pytest.fixture
    def skills(self, tmp_path):
        folder = tmp_path / "site" / ".well-known" / "skills"
        copy_examples(folder)
        write_samples(folder)
        return folder

    @pytest.mark.parametrize("place", ["skills", "agent-skills"])
    def test_every_file_arrives(self, skills, place, tmp_path, workplace):
        skills = skills.rename(skills.with_name(place))
        wanted = trees(skills)
        entries = [
            {"name": name, "description": "d", "files": sorted(files, key=lambda path: (path != "SKILL.md", path))}
            for name, files in wanted.items()
        ]
        (skills / "index.json").write_text(json.dumps({"skills": entries}))
        with plain_server(tmp_path / "site") as url:
            said = workplace.skillwire("add", url, "--all", "--yes", "-a", "codex")
            workplace.skillwire("verify")
        assert trees(workplace.installed) == wanted
        assert executables(workplace.installed) == set()  # the format says nothing of modes
        assert "UNVERIFIED" in said
