"""The inputs of a call, as they are typed: ``city=Bern days=5 when:='{"date": "now"}' text=@notes.txt``.

What is typed is a text. Where the descriptor wants another type it is read as JSON, and ``:=`` says that it is JSON
whatever the descriptor wants. ``@`` names a file, which is read in the same way; where a blob is wanted, one is made of
it. A whole object comes from a file or from standard input; what is typed beside it wins.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire import limits
from skillwire.errors import DecodeError, Place, UsageError
from skillwire.trust.guarded_json import load_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from skillwire.protocols.skill_sharing.messages import ParameterDefinition

_STANDARD_INPUT: Final = "-"
_BLOB: Final = "blob"
_JSON_TYPES: Final = {
    "number": "a number such as 12.5",
    "integer": "a whole number",
    "boolean": "true or false",
    "object": 'an object such as {"a": 1}',
    "array": 'a list such as ["a", "b"]',
    "null": "null",
}


class _Pair(NamedTuple):
    """One ``NAME=VALUE``, ``NAME:=JSON``, ``NAME=@FILE`` or ``NAME:=@FILE``."""

    name: str
    value: str
    is_json: bool


def read_inputs(
    pairs: Sequence[str],
    document: str | dict[str, Any] | None,
    parameters: Iterable[ParameterDefinition],
    look: str = "skillwire show REF --descriptor",
) -> dict[str, Any]:
    """Return the inputs that were typed.

    Args:
        pairs: each a ``NAME=VALUE``.
        document: the file of a JSON object, ``-`` for standard input; what :func:`read_object` made of it; None for
            none.
        parameters: of the descriptor.
        look: the command that says what the skill takes.

    Raises:
        UsageError: ``USAGE`` for a pair that cannot be read, or a name that is given twice.
        DecodeError: the document is not a JSON object.
    """
    types = {parameter.name: parameter.type for parameter in parameters}
    inputs = dict(document) if isinstance(document, dict) else {} if document is None else read_object(document)
    typed: set[str] = set()
    for text in pairs:
        pair = _split(text)
        if pair.name in typed:
            raise UsageError("USAGE", f"the input {pair.name} is given twice")
        typed.add(pair.name)
        inputs[pair.name] = _value(pair, types.get(pair.name, "string"), look)
    return inputs


def _split(text: str) -> _Pair:
    name, separator, value = text.partition("=")
    if not separator or not name.removesuffix(":"):
        fix = "Write NAME=VALUE, NAME:=JSON, or NAME=@FILE."
        raise UsageError("USAGE", f"{ascii(text)[1:-1][:80]} names no input", fix=fix)
    return _Pair(name.removesuffix(":"), value, name.endswith(":"))


def _value(pair: _Pair, kind: str, look: str) -> Any:
    is_file = pair.value.startswith("@")
    if is_file and kind == _BLOB and not pair.is_json:
        return Path(pair.value[1:])
    if is_file:
        data = _read_file(pair.value[1:], f"the input {pair.name}")
    else:
        data = pair.value.encode("utf-8", "surrogateescape")
    source = pair.value[1:] if is_file else pair.name
    if not pair.is_json and kind not in _JSON_TYPES:
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise UsageError("USAGE", f"the input {pair.name} is not UTF-8", place=Place(source)) from error
    try:
        return load_json(data, max_bytes=limits.CALL_INPUT_BYTES, source=source)
    except DecodeError as error:
        wanted = "JSON" if pair.is_json else _JSON_TYPES[kind]
        if is_file:
            raise UsageError("USAGE", f"the input {pair.name} must be {wanted}", place=error.place) from error
        message = f"the input {pair.name} must be {wanted}, not {ascii(pair.value)[:80]}"
        raise UsageError("USAGE", message, fix=f"{look} says what the skill takes.") from error


def read_object(document: str) -> dict[str, Any]:
    """Return the JSON object in the file ``document``, or on standard input for ``-``, which can be read once.

    Raises:
        DecodeError: it holds something else. UsageError: ``USAGE``, there is no such file.
    """
    is_stream = document == _STANDARD_INPUT
    source = "standard input" if is_stream else document
    data = sys.stdin.buffer.read(limits.CALL_INPUT_BYTES + 1) if is_stream else _read_file(document, "the inputs")
    value = load_json(data, max_bytes=limits.CALL_INPUT_BYTES, source=source)
    if not isinstance(value, dict):
        raise UsageError("USAGE", "the inputs are a JSON object, by name", place=Place(source))
    return value


def _read_file(name: str, what: str) -> bytes:
    try:
        with Path(name).open("rb") as file:
            return file.read(limits.CALL_INPUT_BYTES + 1)
    except OSError as error:
        message = f"{what} cannot be read: {error.strerror or error}"
        raise UsageError("USAGE", message, place=Place(name), fix="Name a file behind the @.") from error
