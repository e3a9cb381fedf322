"""Secrets come from a file or the environment, and are taken out of whatever is shown."""

import base64
import html
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwire.adapters.executors.secrets import SecretMask, Secrets
from skillwire.errors import StorageError


def secrets_file(tmp_path, text, name="secrets.env", mode=0o600):
    path = tmp_path / name
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_name_is_looked_for_in_the_file_then_in_the_environment(tmp_path):
    file = secrets_file(tmp_path, "# keys\nA_KEY=from file\n\nB_KEY='quoted # text'\nC_KEY=x=y\n")
    secrets = Secrets({"A_KEY": "from environment", "D_KEY": "d", "EMPTY": ""}, file)
    found, missing = secrets.find(["A_KEY", "B_KEY", "C_KEY", "D_KEY", "EMPTY", "E_KEY"])
    assert found == {"A_KEY": "from file", "B_KEY": "quoted # text", "C_KEY": "x=y", "D_KEY": "d"}
    assert missing == ["EMPTY", "E_KEY"]
    assert secrets.value("A_KEY") == "from file"
    assert secrets.value("E_KEY") is None


def test_toml_is_read_as_such_and_anew_each_time(tmp_path):
    file = secrets_file(tmp_path, 'A_KEY = "one"\n', "secrets.toml")
    secrets = Secrets({}, file)
    assert secrets.value("A_KEY") == "one"
    secrets_file(tmp_path, 'A_KEY = "two"\n', "secrets.toml")
    assert secrets.value("A_KEY") == "two"


def test_values_too_short_for_a_secret_are_not_searched(monkeypatch):
    """An output of 4 MiB has 700,000 short texts; to search each took 2 s for each secret."""
    searched, search = [], SecretMask._spans

    def recorded(mask, text):
        searched.append(text)
        return search(mask, text)

    monkeypatch.setattr(SecretMask, "_spans", recorded)
    value = {"id": [7, 1.5, None, True, "short"], "name": "a-long-text-of-another"}
    assert SecretMask(["a-secret-value"]).value(value) == value
    assert searched == ["a-long-text-of-another"]


def test_our_own_variables_are_nobody_elses_secrets():
    assert Secrets({"SKILLWIRE_TOKENS": "x"}).find(["SKILLWIRE_TOKENS"]) == ({}, ["SKILLWIRE_TOKENS"])


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666, 0o620])
def test_a_file_that_is_open_to_others_is_refused(tmp_path, mode):
    file = secrets_file(tmp_path, "A_KEY=secret-value\n", mode=mode)
    with pytest.raises(StorageError, match="SECRETS_FILE") as caught:
        Secrets({}, file).find(["A_KEY"])
    assert "secret-value" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("s.toml", "A_KEY = 1"),
        ("s.toml", "[A]\nKEY = 'secret-value'"),
        ("s.toml", "A_KEY = 'secret-value"),
        ("s.env", "secret-value"),
        ("s.env", "a_key=secret-value"),
        ("s.env", "PATH=secret-value"),
        ("s.env", "A_KEY=" + "s" * 9000),
        ("s.env", "A_KEY=x\n" * 10_000),
        ("s.env", "secret-value=="),
        ("s.env", "A_KEY=secret\0value"),
    ],
)
def test_a_file_that_holds_something_else_is_refused_and_not_shown(tmp_path, name, text):
    with pytest.raises(StorageError, match="SECRETS_FILE") as caught:
        Secrets({}, secrets_file(tmp_path, text, name)).find(["A_KEY"])
    assert "secret-value" not in str(caught.value)


def test_a_file_that_is_missing_or_none_is_told(tmp_path):
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(StorageError, match="SECRETS_FILE"):
            Secrets({}, path).load()


def test_a_file_is_only_read_for_a_skill_that_wants_secrets(tmp_path):
    assert Secrets({}, tmp_path / "none").find([]) == ({}, [])


@given(st.text(min_size=4, max_size=40), st.text(max_size=50), st.text(max_size=50))
def test_no_form_of_a_secret_is_left(secret, before, after):
    forms = [
        secret,
        json.dumps(secret),
        repr(secret),
        quote(secret, safe=""),
        base64.b64encode(secret.encode()).decode(),
    ]
    for form in forms:
        shown = SecretMask([secret]).text(before + form + after)
        assert secret not in shown.replace("[secret]", "") or secret in "[secret]"  # noqa: S105  # the mark itself
        assert len(form) <= SecretMask([secret]).longest + 2  # without quotes


def test_longer_secrets_are_taken_out_first():
    assert SecretMask(["key", "key-and-more"]).text("key-and-more key") == "[secret] [secret]"
    assert SecretMask([]).text("nothing \\u0041") == "nothing \\u0041"
    assert SecretMask([]).longest == 0


VALUE = 'sk/AbC+1\\n23=xyz&"q~<é'
ASCII = VALUE.removesuffix("é")


@pytest.mark.parametrize(
    "shown",
    [
        json.dumps(VALUE)[1:-1].replace("/", r"\/"),
        "".join(f"\\u{ord(one):04x}" for one in VALUE),
        "".join(f"\\u{ord(one):04X}" for one in VALUE),
        json.dumps(json.dumps(VALUE)),
        json.dumps(json.dumps(VALUE).replace("/", r"\/")),
        "".join(f"\\x{ord(one):02x}" for one in VALUE),
        html.escape(VALUE),
        html.escape(html.escape(VALUE)),
        "".join(f"&#{ord(one)};" for one in VALUE),
        "".join(f"&#x{ord(one):04X};" for one in VALUE),
        quote(VALUE),
        quote(ASCII, safe="").lower().replace("abc", "AbC"),
        quote(quote(ASCII, safe=""), safe=""),
        "".join(f"%{ord(one):02x}" for one in ASCII),
        f"<b>{html.escape(ASCII)}</b>",
        base64.b64encode(VALUE.encode()).decode(),
        base64.b64encode(f"user:{VALUE}".encode()).decode(),
        base64.b64encode(f"us:{VALUE}:more".encode()).decode(),
        base64.urlsafe_b64encode(f"use:{VALUE}".encode()).decode(),
        base64.b64encode(f"u:{VALUE}".encode()).decode().replace("/", r"\/").replace("+", r"\u002b"),
        quote(base64.b64encode(VALUE.encode()).decode(), safe=""),
        base64.b64encode(VALUE.encode("utf-16-le")).decode(),
        html.escape(VALUE).replace("/", "&sol;").replace("+", "&plus;").replace("=", "&equals;"),
        html.escape(VALUE).replace("/", "&#47"),
        html.escape(VALUE).replace("&quot;", "&quot"),
    ],
)
def test_an_escaped_secret_is_taken_out(shown):
    found = SecretMask([VALUE, ASCII]).text(f"before &amp; {shown} after \\u0041")
    assert found.startswith("before &amp; ")
    assert found.endswith(" after \\u0041")
    rest = found.removeprefix("before &amp; ").removesuffix(" after \\u0041").replace("[secret]", "")
    assert len(rest) <= len("<b></b>"), rest


PRINTABLE = [chr(code) for code in range(33, 127) if chr(code) not in "%&\\"]
ESCAPES = (str, "\\u{:04x}", "\\\\\\\\u{:04X}", "%{:02x}", "%25{:02X}", "&#{};", "&amp;#x{:x};")


@given(st.lists(st.tuples(st.sampled_from(PRINTABLE), st.integers(0, len(ESCAPES) - 1)), min_size=8, max_size=30))
def test_a_secret_with_any_mixture_of_escapes_is_taken_out(spelled):
    secret = "".join(one for one, _ in spelled)
    shown = "".join(one if not kind else str(ESCAPES[kind]).format(ord(one)) for one, kind in spelled)
    found = SecretMask([secret]).text(f"before {shown} after")
    assert "[secret]" in found
    assert len(found) <= len("before [secret] after") + len(str(ESCAPES[2]).format(0))


def test_a_decoded_document_has_no_secrets_left():
    document = {"n": 1, VALUE: [f"Bearer {VALUE}", None, True, 1.5, {"deep": html.escape(VALUE)}], "k": 1234567890}
    assert SecretMask([VALUE, "1234567890"]).value(document) == {
        "n": 1,
        "[secret]": ["Bearer [secret]", None, True, 1.5, {"deep": "[secret]"}],
        "k": "[secret]",
    }
    assert SecretMask([]).value(document) is document


def test_bytes_have_no_secrets_left():
    assert SecretMask(["key-1234"]).data(b"\0key-1234" + "key-1234".encode("utf-16-le")) == b"\0[secret][secret]"
    shown = b'\xff{"auth": "Bearer sk\\/AbC\\u002b1234"}\xfe'
    assert SecretMask(["sk/AbC+1234"]).data(shown) == b'\xff{"auth": "Bearer [secret]"}\xfe'
