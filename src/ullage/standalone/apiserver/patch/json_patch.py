"""JSON patch (RFC 6902), with kube-apiserver's leniencies.

Written out and not taken from a library, because the server departs from the RFC where clients have come to count on it:
replacing what is not there adds it, a copy of nothing is null, a test for null passes on nothing, indexes count from the end
when negative. And only what a patch touches is copied, where libraries copy the whole object.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

from ullage.standalone.apiserver.patch.form import json_type
from ullage.standalone.apiserver.status import ApiError, Json, bad_request, rejected_patch, too_large

MOST_OPERATIONS: Final = 10_000


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
    if not isinstance(document.root, dict):
        raise rejected_patch()
    return document.root


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
    """An object being patched: containers are copied when an operation first reaches them, so the original stays whole."""

    def __init__(self, obj: Json) -> None:
        self.root: Any = obj
        self._copies: dict[int, Any] = {}  # by id; holding them keeps an id from being given to another object

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
                # a copy in full: later operations may change the one and must not change the other
                self._add(path, deepcopy(self._get(op.get("from") or "")))
            case "test":
                self._test(path, value)
            case other:
                raise _Fault(f"unknown operation {other}")

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
        if isinstance(parent, list):
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
        if found != value or type(found) is not type(value):  # 1 is neither True nor 1.0
            raise _Fault(f"{path} differs")

    def _get(self, path: str) -> Any:
        parent, key = self._parent(path)
        return parent.get(key) if isinstance(parent, dict) else parent[_index(key, len(parent))]

    def _parent(self, path: str) -> tuple[Any, str]:
        """The container that a path's last step is in, ready to be changed, and that step."""
        steps = path.split("/")
        if len(steps) < 2:
            raise _Fault(f"{path} is no path")
        *way, last = (step.replace("~1", "/").replace("~0", "~") for step in steps[1:])
        here = self.root = self._own(self.root)
        for step in way:
            at: Any = step if isinstance(here, dict) else _index(step, len(here))
            child = here.get(at) if isinstance(here, dict) else here[at]
            here[at] = child = self._own(child)
            here = child
        return here, last

    def _own(self, value: Any) -> Any:
        if id(value) in self._copies:
            return value
        if not isinstance(value, dict | list):
            raise _Fault("a path leads through something that is no container")
        copy = value.copy()
        self._copies[id(copy)] = copy
        return copy


def _index(step: str, size: int) -> int:
    """A list index below `size`; negative ones count from the end."""
    digits = step[1:] if step[:1] in ("-", "+") else step
    if not (digits.isascii() and digits.isdigit()):
        raise _Fault(f"{step} is no index")
    index = int(step)
    if index < 0:
        index += size
    if not 0 <= index < size:
        raise _Fault(f"index {step} is out of bounds")
    return index
