"""JSON patch (RFC 6902), with kube-apiserver's leniencies.

Written out and not taken from a library, because the server departs from the RFC where clients have come to count on it:
replacing what is not there adds it, a copy of nothing is null, a test for null passes on nothing, indexes count from the end
when negative. And only what a patch touches is copied, where libraries copy the whole object.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from ullage.standalone.apiserver.fields.patch.form import json_type
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import ApiError, bad_request, rejected_patch, too_large

# A list that stays quick when it is long and changed at its start. Python's list moves every item behind an insertion
# or a removal. Ten thousand operations of one JSON patch on a list of half a million items would take seconds; here an
# operation moves the items of one block only.


BLOCK: Final = 8192  # items: a list no longer than this is quick as it is


class LongList:
    """The part of a list's interface that a patch needs. Indexes are not negative and within bounds."""

    __slots__ = ("_blocks", "_size")

    def __init__(self, items: list[Any]) -> None:
        self._blocks = [items[start : start + BLOCK] for start in range(0, len(items), BLOCK)]
        self._size = len(items)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        for block in self._blocks:
            yield from block

    def __getitem__(self, index: int) -> Any:
        block, index = self._find(index)
        return self._blocks[block][index]

    def __setitem__(self, index: int, value: Any) -> None:
        block, index = self._find(index)
        self._blocks[block][index] = value

    def __delitem__(self, index: int) -> None:
        block, index = self._find(index)
        del self._blocks[block][index]
        self._size -= 1

    def insert(self, index: int, value: Any) -> None:
        block, index = self._find(index)
        items = self._blocks[block]
        items.insert(index, value)
        self._size += 1
        if len(items) > 2 * BLOCK:
            self._blocks[block : block + 1] = [items[:BLOCK], items[BLOCK:]]

    def append(self, value: Any) -> None:
        self.insert(self._size, value)

    def plain(self) -> list[Any]:
        return [item for block in self._blocks for item in block]

    def _find(self, index: int) -> tuple[int, int]:
        """The block of an index and the place in it. The place behind the last item is in the last block."""
        for number, block in enumerate(self._blocks):
            if index < len(block):
                return number, index
            index -= len(block)
        return len(self._blocks) - 1, index + len(self._blocks[-1])


MOST_OPERATIONS: Final = 10_000
MOST_COPIED: Final = 3 * 1024 * 1024  # bytes of JSON that the copies of one patch may have together
_MOST_DIGITS: Final = 18  # of an index: no list is longer
_ENCODER: Final = msgspec.json.Encoder(enc_hook=LongList.plain)


class _Fault(Exception):
    """An operation that cannot be carried out. The client is told only that there was one."""


def json_patch(obj: Json, ops: Any) -> Json:
    """The object after all operations. 400 if the document is no patch, 413 if too long, 422 if an operation fails."""
    for op in _operations(ops):
        _check_strings(op)
    document = _Document(obj)
    try:
        for op in ops or ():
            document.run(op)
    except _Fault as error:
        raise rejected_patch() from error
    found = document.finished()
    if not isinstance(found, dict):
        raise rejected_patch()
    return found


def _operations(ops: Any) -> list[Any]:
    if ops is None:
        return []
    if not isinstance(ops, list):
        raise _undecodable(ops, "Go value of type []handlers.jsonPatchOp")
    if len(ops) > MOST_OPERATIONS:
        raise too_large(
            f"Request entity too large: The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(ops)}"
        )
    return ops


def _check_strings(op: Any) -> None:
    if op is None:
        raise rejected_patch()
    if not isinstance(op, dict):
        raise _undecodable(op, "Go value of type handlers.jsonPatchOp")
    for name in ("op", "path", "from"):
        if not isinstance(op.get(name, ""), str | None):
            raise _undecodable(op[name], f"Go struct field jsonPatchOp.{name} of type string")


def _undecodable(value: Any, into: str) -> ApiError:
    return bad_request(f"error decoding patch: json: cannot unmarshal {json_type(value)} into {into}")


class _Document:
    """An object being patched: containers are copied when an operation first changes them, so the original stays whole.

    No operation costs more than what it brings: its path, its value, and what it copies, of which there is a bound.
    """

    def __init__(self, obj: Json) -> None:
        self.root: Any = obj
        self._copies: dict[int, Any] = {}  # by id; holding them keeps an id from being given to another object
        self._copied = 0  # bytes

    def run(self, op: Json) -> None:
        path, value = op.get("path"), op.get("value")
        if path is None:
            raise _Fault("no path")
        match op.get("op"):
            case "add":
                self._add(path, value)
            case "remove":
                self._remove(path)
            case "replace":
                self._replace(path, value)
            case "move":
                moved = self._get(op.get("from") or "")
                self._remove(op.get("from") or "")
                self._add(path, moved)
            case "copy":
                self._add(path, self._copy_of(self._get(op.get("from") or "")))
            case "test":
                self._test(path, value)
            case other:
                raise _Fault(f"unknown operation {other}")

    def finished(self) -> Any:
        """The outcome, of plain lists and maps again."""
        if not any(type(copy) is LongList for copy in self._copies.values()):
            return self.root
        open_containers: list[Any] = [{"": self.root}]
        self.root = open_containers[0]
        while open_containers:
            here = open_containers.pop()
            for key, child in list(here.items() if type(here) is dict else enumerate(here)):
                if id(child) in self._copies:  # only containers that were changed can hold others that were
                    here[key] = child = child.plain() if type(child) is LongList else child
                    open_containers.append(child)
        return self.root[""]

    def _copy_of(self, value: Any) -> Any:
        """A copy in full: later operations may change the one and must not change the other."""
        encoded = _ENCODER.encode(value)
        self._copied += len(encoded) if value is not None else 0
        if self._copied > MOST_COPIED:
            raise _Fault("copies without end")
        return msgspec.json.decode(encoded)

    def _add(self, path: str, value: Any) -> None:
        parent, key = self._parent(path)
        if isinstance(parent, dict):
            parent[key] = value
        elif key == "-":
            parent.append(value)
        else:
            parent.insert(_index(key, len(parent) + 1), value)

    def _remove(self, path: str) -> None:
        parent, key = self._parent(path)
        if not isinstance(parent, dict):
            del parent[_index(key, len(parent))]
        elif key in parent:
            del parent[key]
        else:
            raise _Fault(f"nothing at {path}")

    def _replace(self, path: str, value: Any) -> None:
        if path == "":
            self.root = value
            return
        parent, key = self._parent(path)
        if isinstance(parent, dict):
            parent[key] = value
        else:
            parent[_index(key, len(parent))] = value

    def _test(self, path: str, value: Any) -> None:
        found = self.root if path == "" else self._get(path)
        if not _equal(found, value):
            raise _Fault(f"{path} differs")

    def _get(self, path: str) -> Any:
        """What a path leads to. Nothing is made ready to be changed: a test must not cost a copy of a long list."""
        *way, last = _steps(path)
        here = self.root
        for step in way:
            here = _child(here, step)
        return _child(here, last)

    def _parent(self, path: str) -> tuple[Any, str]:
        """The container that a path's last step is in, ready to be changed, and that step."""
        *way, last = _steps(path)
        here = self.root = self._own(self.root)
        for step in way:
            at: Any = step if isinstance(here, dict) else _index(step, len(here))
            child = here.get(at) if isinstance(here, dict) else here[at]
            if id(child) not in self._copies:
                here[at] = child = self._own(child)
            here = child
        return here, last

    def _own(self, value: Any) -> Any:
        if id(value) in self._copies:
            return value
        if not isinstance(value, dict | list):
            raise _Fault("a path leads through something that is no container")
        copy = LongList(value) if isinstance(value, list) and len(value) > BLOCK else value.copy()
        self._copies[id(copy)] = copy
        return copy


def _steps(path: str) -> list[str]:
    steps = path.split("/")
    if len(steps) < 2:
        raise _Fault(f"{path} is no path")
    del steps[0]
    if "~" in path:
        return [step.replace("~1", "/").replace("~0", "~") for step in steps]
    return steps


def _child(here: Any, step: str) -> Any:
    if isinstance(here, dict):
        return here.get(step)
    if not isinstance(here, list | LongList):
        raise _Fault("a path leads through something that is no container")
    return here[_index(step, len(here))]


def _equal(found: Any, value: Any) -> bool:
    """Equal as JSON: 1 is neither True nor 1.0. Ends at the first difference, so it costs no more than `value` is long."""
    pairs: list[tuple[Any, Any]] = [(found, value)]
    while pairs:
        one, other = pairs.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            if one.keys() != other.keys():
                return False
            pairs.extend((one[key], other[key]) for key in other)
        elif isinstance(one, list | LongList) and isinstance(other, list):
            if len(one) != len(other):
                return False
            pairs.extend(zip(one, other, strict=True))
        elif type(one) is not type(other) or one != other:
            return False
    return True


def _index(step: str, size: int) -> int:
    """A list index below `size`; negative ones count from the end."""
    digits = step[1:] if step[:1] in ("-", "+") else step
    if not (digits.isascii() and digits.isdigit()):
        raise _Fault(f"{step} is no index")
    digits = digits.lstrip("0") or "0"
    if len(digits) > _MOST_DIGITS:
        raise _Fault(f"index {step} is out of bounds")
    index = -int(digits) if step[0] == "-" else int(digits)
    if index < 0:
        index += size
    if not 0 <= index < size:
        raise _Fault(f"index {step} is out of bounds")
    return index
