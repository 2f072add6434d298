"""The messages of the built-in kinds, compiled from `fields.txt` when a body first needs them.

The table has a block for each message, headed by `kind` if it may be the body of a request and by `part` if not:

    part v1.ServicePort
    1 name ?string              number, JSON name, type; `?`: the zero value is not in JSON, either
    4 targetPort intOrString
    2 ^VolumeSource             a message whose fields stand among those of the one that holds it
    []T {}T ()T                 a list; a map by name; a message that is nothing but a list

Messages of another group than the block's own have the group and version before their name.
`tools/protobuf_table.py` writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from ullage.standalone.apiserver.codec.protobuf import values, wire
from ullage.standalone.apiserver.codec.protobuf.wire import Keyed, Message, Read

TABLE = Path(__file__).with_name("fields.txt")

# Kinds of the requests themselves: clients name them under the group and version of whatever the request is about.
OPTIONS = frozenset({"CreateOptions", "DeleteOptions", "PatchOptions", "UpdateOptions"})
_META = "meta.k8s.io/v1"


def _schema() -> Message:
    return message("apiextensions.k8s.io/v1.JSONSchemaProps")


_NUMBERS: dict[str, Callable[[int], int]] = {"int32": wire.int32, "int64": wire.int64, "bool": bool}
_READS: dict[str, Read] = {
    "string": wire.text,
    "bytes": values.base64_text,
    "time": values.time,
    "microTime": values.micro_time,
    "quantity": values.quantity,
    "intOrString": values.int_or_string,
    "json": values.json,
    "schemaOrArray": values.schema_or_array(_schema),
    "schemaOrBool": values.schema_or_bool(_schema),
    "schemaOrStrings": values.schema_or_strings(_schema),
}


def kind(api_version: str, name: str) -> Message | None:
    """The message of a kind; None if no built-in kind has that name in that version."""
    full = f"{_META if name in OPTIONS else api_version}.{name}"
    return message(full) if blocks().get(full, "").startswith("kind ") else None


@cache
def blocks() -> dict[str, str]:
    """The table's blocks by the message's full name."""
    found = TABLE.read_text(encoding="ascii").rstrip("\n").split("\n\n")
    return {block.partition("\n")[0].partition(" ")[2]: block for block in found}


@cache
def message(full: str) -> Message:
    """A message by its full name, `apps/v1.DeploymentSpec`."""
    api_version, _, name = full.rpartition(".")
    return Message(name, _compile(blocks()[full].splitlines()[1:], api_version))


def _compile(lines: list[str], api_version: str) -> Iterator[tuple[int, str, list[Keyed]]]:
    for line in lines:
        number, rest = line.split(" ", 1)
        if rest.startswith("^"):
            yield int(number), rest[1:], wire.inline(_later(rest[1:], api_version))
        else:
            name, word = rest.split(" ")
            yield int(number), name[:1].upper() + name[1:], _field(name, word, api_version)


def _field(name: str, word: str, api_version: str) -> list[Keyed]:
    keep, word = not word.startswith("?"), word.removeprefix("?")
    if word.startswith("{}"):
        return wire.mapping(name, _read(word[2:], api_version))
    if word.startswith("[]"):
        item = word[2:]
        return wire.numbers(name, _NUMBERS[item]) if item in _NUMBERS else wire.values(name, _read(item, api_version))
    if word in _NUMBERS:
        return wire.number(name, _NUMBERS[word], keep=keep)
    if word == "double":
        return wire.double(name, keep=keep)
    if word in _READS or word.startswith("()"):
        return wire.value(name, _read(word, api_version), keep=keep)
    return wire.part(name, _later(word, api_version))


def _read(word: str, api_version: str) -> Read:
    """How one value that has a length is read."""
    if word in _READS:
        return _READS[word]
    if word.startswith("()"):
        listed = Message("Items", [(1, "Items", wire.values("items", _read(word[2:], api_version)))])
        return lambda data, start, stop, depth: listed.read(data, start, stop, depth).get("items", [])
    found = _later(word, api_version)
    return lambda data, start, stop, depth: found().read(data, start, stop, depth)


def _later(word: str, api_version: str) -> Callable[[], Message]:
    """Messages hold one another, and themselves: each is compiled when the first of its kind comes in."""
    full = word if "." in word else f"{api_version}.{word}"
    return lambda: message(full)
