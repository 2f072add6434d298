"""JSON merge patch (RFC 7386): objects merge, null removes, anything else replaces."""

from __future__ import annotations

from typing import Any

from ullage.standalone.apiserver.fields.patch.form import must_be_object
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import bad_request


def merge_patch(obj: Json, patch: Any) -> Json:
    """The object with the patch laid over it. Neither is changed; what the patch does not touch is shared."""
    if patch is None:
        raise bad_request("Invalid JSON Patch")
    must_be_object(patch, prefix="error decoding patch: ")
    return _merged(obj, patch)


def _merged(old: Json, patch: Json) -> Json:
    out = dict(old)
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        elif isinstance(value, dict):
            before = out.get(key)
            out[key] = _merged(before, value) if isinstance(before, dict) else pruned(value)
        else:
            out[key] = pruned(value)
    return out


def pruned(value: Any) -> Any:
    """A value without the nulls in its objects: they say "remove", and nothing is there. A list's items may be null."""
    if isinstance(value, dict):
        return {key: pruned(child) for key, child in value.items() if child is not None}
    return [pruned(item) for item in value] if isinstance(value, list) else value
