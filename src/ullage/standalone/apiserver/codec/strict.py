"""What a body says that nobody reads: fields that the kind does not know, and keys that stand twice.

They are refused under `fieldValidation=Strict` and warned of otherwise, in the order in which kube-apiserver meets them: a
built-in kind in JSON as they stand in the text; in YAML, and for custom kinds, the repeated keys first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from ullage.standalone.apiserver.codec.json import BadBody
from ullage.standalone.apiserver.codec.yaml import read_yaml
from ullage.standalone.apiserver.status import json_string

MOST_FAULTS: Final = 100  # of one body; kube-apiserver gathers no more either
_INDEX: Final = re.compile(r"\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Sent:
    """The text that an object, or a patch, was read from."""

    text: bytes
    yaml: bool = False
    patch: bool = False  # not the object itself, but a change of it
    lead: str = ""  # how repeated keys are introduced: a JSON patch says what it is


@dataclass(frozen=True, slots=True)
class StrictErrors:
    warnings: list[str]
    strict: str  # all of them, as a refusal under Strict puts it


def find_faults(sent: Sent | None, unknown: list[str], *, custom: bool) -> StrictErrors:
    """`unknown` are the paths that were pruned from the object that came of the text."""
    if sent is None or not sent.text:
        return _faults([_unknown(path) for path in _ordered(unknown, custom=custom)])
    if sent.yaml:
        return repeated_in_yaml(sent.text, [_unknown(path) for path in _ordered(unknown, custom=custom)])
    if not unknown and not _has_repeated(sent.text):
        return _faults([])
    found: dict[str, None] = {}
    in_order = frozenset() if custom or sent.patch else frozenset(unknown)
    _gather(_pairs(sent.text), "", in_order, found, sent.lead)
    if not in_order:
        found.update(dict.fromkeys(_unknown(path) for path in _ordered(unknown, custom=custom)))
    return _faults(list(found))


def repeated_in_yaml(text: bytes, more: list[str]) -> StrictErrors:
    if text[:1] == b"{" and _has_repeated(text) is False:
        return _faults(more)  # it is JSON, and read more quickly as such
    try:
        repeated = read_yaml(text).repeated
    except BadBody:
        repeated = []
    if not repeated:
        return _faults(more)
    lines = "".join(f"\n  {line}" for line in repeated[:MOST_FAULTS])
    return StrictErrors([*repeated, *more][:MOST_FAULTS], ", ".join([f"yaml: unmarshal errors:{lines}", *more]))


def _faults(found: list[str]) -> StrictErrors:
    return StrictErrors(found[:MOST_FAULTS], ", ".join(found[:MOST_FAULTS]))


def _unknown(path: str) -> str:
    return f"unknown field {json_string(path)}"


def _ordered(paths: list[str], *, custom: bool) -> list[str]:
    """As in an object whose keys are sorted; the metadata of a custom object is read before the rest of it."""
    if custom:
        return sorted(paths, key=lambda path: (not path.startswith("metadata."), path))
    return sorted(paths, key=_natural)


def _natural(path: str) -> list[tuple[str, int]]:
    """Sorts the tenth item of a list behind the second."""
    parts = [*_INDEX.split(path), "-1"]
    return [(text, int(index)) for text, index in zip(parts[::2], parts[1::2], strict=True)]


class _Pairs(list[tuple[str, Any]]):
    """An object with all its keys, in order."""


def _pairs(text: bytes) -> Any:
    try:
        return json.loads(text.decode("utf-8", "replace"), object_pairs_hook=_Pairs)
    except ValueError:
        return None


def _has_repeated(text: bytes) -> bool | None:
    """None where the text is no JSON."""
    repeated = False

    def gather(pairs: list[tuple[str, Any]]) -> None:
        nonlocal repeated
        repeated = repeated or len({key for key, _ in pairs}) != len(pairs)

    try:
        json.loads(text.decode("utf-8", "replace"), object_pairs_hook=gather)
    except ValueError:
        return None
    return repeated


def _gather(value: Any, path: str, unknown: Iterable[str], found: dict[str, None], lead: str) -> None:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, item in value:
            place = f"{path}.{key}" if path else key
            if place in unknown:
                found[_unknown(place)] = None
                continue
            if key in seen:
                found[f"{lead}duplicate field {json_string(place)}"] = None
            seen.add(key)
            _gather(item, place, unknown, found, lead)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _gather(item, f"{path}[{index}]", unknown, found, lead)
