"""What a pod says about hooks of its own, in annotations: whoever may write them may change what the pod runs anyway. Pure.

pre.hook.snapshot.ullage.io/command     ["sh","-c","…"], or one word: the program
pre.hook.snapshot.ullage.io/container   post.… likewise
pre.hook.snapshot.ullage.io/timeout     30s
pre.hook.snapshot.ullage.io/on-error    Abort or Continue
hook.snapshot.ullage.io/preset          fsfreeze
hook.snapshot.ullage.io/max-freeze      2m
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from ullage.errors import BadInput
from ullage.policies.cut_hooks.api import (
    ABORT,
    CONTINUE,
    DEFAULT_FREEZE,
    DEFAULT_TIMEOUT,
    FSFREEZE,
    HookCommand,
    HookSpec,
    problem_of_hooks,
)

PREFIX: Final = "hook.snapshot.ullage.io/"
PRESET: Final = f"{PREFIX}preset"
MAX_FREEZE: Final = f"{PREFIX}max-freeze"
_PARTS: Final = ("command", "container", "timeout", "on-error")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600}
_LONGEST: Final = 16 * 1024  # characters of a command that is read at all


def names_hooks(annotations: Mapping[str, str]) -> bool:
    return any(key.startswith((PREFIX, f"pre.{PREFIX}", f"post.{PREFIX}")) for key in annotations)


def pod_hooks(annotations: Mapping[str, str]) -> HookSpec | None:
    """What the annotations of a pod ask for; None: they say nothing of hooks. Raises BadInput."""
    if not names_hooks(annotations):
        return None
    known = {PRESET, MAX_FREEZE, *(f"{when}.{PREFIX}{part}" for when in ("pre", "post") for part in _PARTS)}
    for key in annotations:
        if f".{key}".find(f".{PREFIX}") >= 0 and key not in known:
            raise BadInput(
                _field(key), repr(annotations[key][:100]), f"no such annotation; allowed are {', '.join(sorted(known))}"
            )
    preset = annotations.get(PRESET)
    if preset is not None and preset != FSFREEZE:
        raise BadInput(_field(PRESET), repr(preset[:100]), f"{FSFREEZE} is allowed")
    spec = HookSpec(
        preset=UNSET if preset is None else "fsfreeze",
        pre=_command(annotations, "pre"),
        post=_command(annotations, "post"),
        max_freeze_seconds=_seconds(annotations, MAX_FREEZE, DEFAULT_FREEZE),
    )
    if problem := problem_of_hooks(spec):
        raise BadInput("metadata.annotations", f"({PREFIX}…)", problem)
    return spec


def _command(annotations: Mapping[str, str], when: str) -> HookCommand | UnsetType:
    keys = {part: f"{when}.{PREFIX}{part}" for part in _PARTS}
    text = annotations.get(keys["command"])
    if text is None:
        lone = next((key for key in keys.values() if key in annotations), None)
        if lone is not None:
            raise BadInput(_field(lone), repr(annotations[lone][:100]), f"it says nothing without {keys['command']}")
        return UNSET
    on_error = annotations.get(keys["on-error"], ABORT)
    if on_error not in (ABORT, CONTINUE):
        raise BadInput(_field(keys["on-error"]), repr(on_error[:100]), f"{ABORT} and {CONTINUE} are allowed")
    return HookCommand(
        command=_words(keys["command"], text),
        container=annotations.get(keys["container"], ""),
        timeout_seconds=_seconds(annotations, keys["timeout"], DEFAULT_TIMEOUT),
        on_error="Abort" if on_error == ABORT else "Continue",
    )


def _words(key: str, text: str) -> tuple[str, ...]:
    if not text.startswith("["):
        return (text,)
    try:
        found: Any = msgspec.json.decode(text[:_LONGEST], type=tuple[str, ...])
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise BadInput(_field(key), repr(text[:100]), f'{error}; a list such as ["sync","-f"] or one word is allowed') from None
    words: tuple[str, ...] = found
    return words


def _seconds(annotations: Mapping[str, str], key: str, default: int) -> int:
    text = annotations.get(key)
    if text is None:
        return default
    number, unit = (text[:-1], text[-1:]) if text[-1:] in _UNITS else (text, "s")
    if not (number.isascii() and number.isdecimal() and len(number) < 6):
        raise BadInput(_field(key), repr(text[:100]), "a time such as 30s or 2m is allowed")
    return int(number) * _UNITS[unit]


def _field(key: str) -> str:
    return f"metadata.annotations[{key}]"
