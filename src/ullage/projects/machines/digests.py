"""The digest of a provider spec: the same for all texts that the API may give back for what was once sent, and for no others.

Keys are sorted. A field that is null is a field that is absent. A number such as `1.0` is written `1` by whoever stores it, so
both are one number; but `1` and `"1"` differ, as do `1` and `true`.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from ullage.errors import BadInput


class BadSpec(BadInput):
    """A provider spec that cannot be written down: nothing can be said about it, so no stamp is good for it."""


def digest(spec: Any) -> str:
    """SHA-256 of the canonical JSON, in hexadecimal. Raises BadSpec."""
    try:
        return hashlib.sha256(msgspec.json.encode(_canonical(spec), order="deterministic")).hexdigest()
    except RecursionError as error:
        raise BadSpec("spec.providerSpec", "…", "it is nested too deeply") from error
    except (TypeError, ValueError) as error:
        raise BadSpec("spec.providerSpec", "…", f"it is no JSON: {error}") from error


def same(one: Any, other: Any) -> bool:
    """Whether two provider specs are one. What cannot be read is like nothing else."""
    try:
        return digest(one) == digest(other)
    except BadSpec:
        return False


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _canonical(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
