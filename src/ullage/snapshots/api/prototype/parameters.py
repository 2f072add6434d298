"""Parameters for snapshots on a StorageClass, which has no field for them: an annotation holds them, as JSON.

The proposal's limits hold: keys are not empty, 512 parameters at most, 256 KiB together.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ullage.snapshots.backends.base import Parameters
from ullage.snapshots.model import Problem

ANNOTATION: Final = "ullage.io/snapshot-parameters"
MOST: Final = 512
MOST_BYTES: Final = 256 * 1024
_ALLOWED: Final = 'a JSON object of strings, such as {"tier": "cold"}'


def read_parameters(class_name: str, text: str) -> Parameters | Problem:
    try:
        found = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (ValueError, RecursionError) as error:
        return _problem(class_name, f"it cannot be read ({error}); it must be {_ALLOWED}")
    if "" in found:
        return _problem(class_name, f"a key is empty; it must be {_ALLOWED}, whose keys are not empty")
    if len(found) > MOST:
        return _problem(class_name, f"it has {len(found)} parameters; {MOST} are allowed")
    made: dict[str, str] = {}
    for key, raw in found.items():
        try:
            made[key] = msgspec.json.decode(raw, type=str)
        except (ValueError, RecursionError):
            return _problem(class_name, f"the value of {key!r} is not a string; it must be {_ALLOWED}")
    size = sum(len(key.encode()) + len(value.encode()) for key, value in made.items())
    if size > MOST_BYTES:
        return _problem(class_name, f"keys and values have {size} bytes; {MOST_BYTES} bytes (256 KiB) are allowed")
    return made


def _problem(class_name: str, what: str) -> Problem:
    return Problem("BadParameters", f"StorageClass {class_name}, annotation {ANNOTATION}: {what}")
