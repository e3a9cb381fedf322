"""What holds for every skill that is packed, and for every archive that somebody breaks."""

import io
import tarfile
import zipfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from skillwire.errors import DecodeError, TrustError, ValidationError
from skillwire.folder.pack import pack
from skillwire.model.skill import FileContent
from skillwire.trust.archive import plan_files, read_archive
from skillwire.trust.paths import check_path

ARCHIVES = Path(__file__).parent.parent / "corpus" / "archives"
SMALL = [path.read_bytes() for path in sorted(ARCHIVES.glob("*/*.*")) if 0 < path.stat().st_size < 2048]
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
PATHS = st.one_of(
    st.lists(st.from_regex(r"[a-z0-9_][a-z0-9_.-]{0,30}[a-z0-9_]", fullmatch=True), min_size=1, max_size=5).map(
        "/".join
    ),
    st.lists(NAMES, min_size=1, max_size=3).map("/".join),
)


def is_allowed(path):
    try:
        check_path(path)
    except TrustError:
        return False
    return True


def skill(files):
    """Return the files whose paths may stand together, and SKILL.md."""
    kept = [FileContent("SKILL.md", b"# a skill")]
    for path, (content, executable) in files.items():
        try:
            kept = [*plan_files([*kept, FileContent(path, content, executable)]).files]
        except TrustError:
            continue
    return kept


SKILLS = st.dictionaries(PATHS.filter(is_allowed), st.tuples(st.binary(max_size=2000), st.booleans()), max_size=8).map(
    skill
)


def standard_reading(packed):
    stream = io.BytesIO(packed.content)
    if packed.extension == ".zip":
        with zipfile.ZipFile(stream) as archive:
            return {
                info.filename: (archive.read(info), bool(info.external_attr >> 16 & 0o100))
                for info in archive.infolist()
            }
    found = {}
    with tarfile.open(fileobj=stream, mode="r:gz") as tar:
        for member in tar:
            content = tar.extractfile(member)
            assert content is not None
            found[member.name] = (content.read(), bool(member.mode & 0o100))
    return found


@given(SKILLS)
def test_reading_what_was_packed_gives_the_files_back(files):
    packed = pack(files)
    plan = read_archive(packed.content, expected_format="zip" if packed.extension == ".zip" else "tar.gz")
    assert [*plan.files] == sorted(files)


@given(SKILLS, st.randoms())
def test_the_order_of_the_files_makes_no_difference(files, chance):
    shuffled = [*files]
    chance.shuffle(shuffled)
    assert pack(shuffled) == pack(files)


@given(SKILLS)
def test_the_standard_library_reads_the_same(files):
    assert standard_reading(pack(files)) == {path: (content, executable) for path, content, executable in files}


@given(st.one_of(st.text(), st.binary(), PATHS))
def test_a_path_is_returned_as_it_came_or_refused(path):
    try:
        checked = check_path(path)
    except TrustError:
        return
    assert checked == (path if isinstance(path, str) else path.decode())
    assert not set(checked.split("/")) & {"", ".", ".."}


@st.composite
def broken_archives(draw):
    """An archive of the corpus with up to four bytes changed, put in or taken out, or cut off."""
    content = bytearray(draw(st.sampled_from(SMALL)))
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(content)))
        match draw(st.sampled_from(["change", "insert", "remove", "cut", "repeat"])):
            case "change":
                content[place : place + 1] = draw(st.binary(min_size=1, max_size=1))
            case "insert":
                content[place:place] = draw(st.binary(min_size=1, max_size=8))
            case "remove":
                del content[place : place + draw(st.integers(1, 64))]
            case "cut":
                del content[place:]
            case _:
                content += content[place:]
    return bytes(content)


@settings(max_examples=examples(1500))
@given(broken_archives())
def test_a_broken_archive_is_refused_or_gives_a_safe_plan(content):
    try:
        plan = read_archive(content)
    except (DecodeError, ValidationError, TrustError):
        return
    assert [file.path for file in plan.files] == sorted({check_path(file.path) for file in plan.files})
    assert "SKILL.md" in {file.path for file in plan.files}
