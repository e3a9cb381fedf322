"""The one rule for paths of skill files."""

import pytest

from skillwire import limits
from skillwire.errors import TrustError
from skillwire.trust.paths import check_path, collision_key, show


def refusal(path):
    with pytest.raises(TrustError) as caught:
        check_path(path)
    return caught.value.code


@pytest.mark.parametrize(
    "path",
    [
        "SKILL.md",
        ".hidden",
        "..notes.md",
        "a..b/c...d.md",
        "100%.md",
        "a%20b.md",
        "notes~.md",
        "backup~1~.md",
        "very-long-name~1.md",
        "console.md",
        "com10.txt",
        ".gitignore",
        ".github/workflows/a.yml",
        "references/日本語.md",
        "说明\uff08一\uff09\uff1a表.md",
        "assets/👩‍👩‍👧.png",
        "❤️.md",
        "می‌خواهم.md",
        " leads with a space/x",
        "d/" * (limits.ARCHIVE_DEPTH - 1) + "f",
        "n" * limits.ARCHIVE_COMPONENT_BYTES,
    ],
)
def test_ordinary_paths_come_back_as_they_are(path):
    assert check_path(path) == path
    assert check_path(path.encode()) == path


@pytest.mark.parametrize(
    ("code", "paths"),
    [
        ("PATH_TRAVERSAL", ["..", "../x", "a/..", "a/../b", "%2e%2e/x", "..%2Fx", "a%5cb", "a%252e", "a%00"]),
        ("PATH_TRAVERSAL", ["\uff0e\uff0e/x", "‥/x", "a/../" + "d/" * 40]),
        ("PATH_ABSOLUTE", ["/", "/etc/passwd", "//host/x"]),
        ("PATH_WINDOWS", ["C:/x", "C:x", "a\\b", "\\\\host\\share", "a.md::$DATA", "a./b", "a /b", "a.", "x "]),
        ("PATH_WINDOWS", ["CON", "nul.txt", "a/aux.md", "LPT1", "com¹", "COM0.tar.gz", "conin$", "con .txt"]),
        ("PATH_WINDOWS", ["GIT~1/config", "progra~1", "a/LONGNA~2.TXT", "x~12"]),
        ("PATH_INVALID", ["", ".", "./a", "a/./b", "a//b", "a/", "a\0b", "a\nb", "a\tb", "a\x7f", "a\x85"]),
        ("PATH_INVALID", ["a\u202eb", "SKI\u200bLL.md", "a\U000e0041", "a\ufeff", "\u2028", "a\ue000", "a\udcff"]),
        ("PATH_INVALID", [".g\u200cit/config"]),
        ("PATH_TOO_LONG", ["a" * 256, "é" * 128, "a/" * 256 + "b", "é" * 255 + "/" + "é" * 10]),
        ("PATH_TOO_DEEP", ["d/" * limits.ARCHIVE_DEPTH + "f"]),
        ("PATH_FORBIDDEN", [".git", ".GiT/hooks/x", "a/.git/config", ".hg/hgrc", ".svn/x", ".bzr"]),
    ],
)
def test_other_paths_are_refused_with_their_code(code, paths):
    assert {path: refusal(path) for path in paths} == dict.fromkeys(paths, code)


def test_bytes_must_be_utf_8():
    assert refusal(b"a\xff") == "PATH_INVALID"
    assert refusal(b"\xc0\xae\xc0\xae/x") == "PATH_INVALID"


def test_the_length_is_bounded_in_bytes():
    longest = "a" * 255 + "/" + "b" * 254 + "/c"
    assert len(longest) == limits.ARCHIVE_PATH_BYTES
    assert check_path(longest) == longest
    assert refusal(longest + "c") == "PATH_TOO_LONG"
    assert refusal(longest[:-1] + "é") == "PATH_TOO_LONG"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a/b.md", "A/B.md"),
        ("straße.md", "STRASSE.md"),
        ("caf\u00e9.md", "cafe\u0301.md"),
        ("\u1e9e", "ss"),
        ("\u212b", "\u00e5"),
        ("❤️.md", "❤.md"),
        ("\u0345\u0301", "\u0301\u0345"),
    ],
)
def test_names_that_some_system_confuses_share_a_key(one, other):
    assert collision_key(one) == collision_key(other)


def test_other_names_do_not_share_a_key():
    names = ["a", "b", "ab", "a/b", "é", "e", "日", "本"]
    assert len({collision_key(name) for name in names}) == len(names)


def test_a_shown_path_commands_no_terminal():
    assert show("a\x1b[31m\u202eb") == r"'a\x1b[31m\u202eb'"
    assert show(b"a\xffb") == r"'a\\xffb'"
    assert show("x" * 500) == repr("x" * 80) + "..."
