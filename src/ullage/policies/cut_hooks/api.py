"""What is to be run around a cut: a value that a schedule or a group has in its spec, and a snapshot in an annotation.

Pods say the same in annotations of their own (`pod_annotations.py`), and have the last word about themselves. Whoever names
hooks on anything else must be one who may exec into the pods of that namespace: `webhook/access.py`. Pure.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from ullage.errors import BadInput
from ullage.kube.kinds import ATOMIC, Meta, Rule, Value
from ullage.names import LABEL_LIMIT, LABEL_PATTERN, or_empty

# On a VolumeSnapshot: the HookSpec that is run around its cut, as JSON. Ullage writes it, or somebody who may exec into pods.
HOOKS: Final = "hooks.snapshot.ullage.io/spec"
HOOKS_FIELD: Final = f"metadata.annotations[{HOOKS}]"
FSFREEZE: Final = "fsfreeze"
ABORT: Final = "Abort"
CONTINUE: Final = "Continue"

DEFAULT_TIMEOUT: Final = 30
LONGEST_TIMEOUT: Final = 600
DEFAULT_FREEZE: Final = 120
LONGEST_FREEZE: Final = 3600
MOST_WORDS: Final = 64
MOST_BYTES: Final = 4096  # of one command

OnError = Literal["Abort", "Continue"]


def _range(least: int, most: int) -> msgspec.Meta:
    return msgspec.Meta(extra_json_schema={"minimum": least, "maximum": most})


_WORDS: Final = msgspec.Meta(extra_json_schema={"minItems": 1, "maxItems": MOST_WORDS})
_WORD: Final = msgspec.Meta(extra_json_schema={"maxLength": MOST_BYTES})
_NAME: Final = msgspec.Meta(extra_json_schema={"maxLength": LABEL_LIMIT, "pattern": or_empty(LABEL_PATTERN)})


class HookCommand(Value):
    """A command that is run in a container, without a shell around it and without any input."""

    command: Annotated[tuple[Annotated[str, _WORD], ...], ATOMIC, _WORDS]
    """The program and its arguments: `["sh", "-c", "…"]`. 64 of them at most, and 4,096 bytes together."""
    container: Annotated[str, _NAME] = ""
    """The container that it is run in. Absent: the first one that mounts the claim."""
    timeout_seconds: Annotated[int, _range(1, LONGEST_TIMEOUT)] = DEFAULT_TIMEOUT
    """How long it may take, in seconds: 30 unless said otherwise, 600 at most. After that it has failed."""
    on_error: OnError = "Abort"
    """What a failure of it means. Abort: the snapshot is not taken. Continue: it is taken all the same. Of a post command this
    changes nothing: the cut is made by then."""


class HookSpec(Value):
    """What is run in pods that mount a claim right before and right after its volume is cut. A pod that has annotations about
    hooks of its own is left to those."""

    preset: Literal["fsfreeze"] | UnsetType = UNSET
    """Commands that need not be written out. fsfreeze: the file system of the claim is frozen before the cut and thawed after
    it, with the program of that name, in a container that has it and the right to."""
    pre: HookCommand | UnsetType = UNSET
    """Run before the cut; the snapshot waits for it."""
    post: HookCommand | UnsetType = UNSET
    """Run after the cut, and always when the one before may have been run: after a failure, a timeout or a restart of Ullage,
    too. It may be run more than once, so it must be one that can be."""
    max_freeze_seconds: Annotated[int, _range(1, LONGEST_FREEZE)] = DEFAULT_FREEZE
    """The longest time between the end of the one and the beginning of the other, in seconds: 120 unless said otherwise, 3,600
    at most. If the volume is not cut by then, the post command runs and the cut is tried again later."""

    def __bool__(self) -> bool:
        """Whether there is anything to run."""
        return bool(self.preset or self.pre or self.post)


def hook_rules(path: str) -> tuple[Rule, ...]:
    """The CEL rules of a kind that has a HookSpec at `path` (`spec.hooks`)."""
    either = "a preset has commands of its own: leave out either preset, or pre and post"
    return (Rule("!has(self.preset) || (!has(self.pre) && !has(self.post))", either, path=path),)


def encode_hooks(spec: HookSpec) -> str:
    """The value of the annotation. Equal specs always give the same text."""
    return msgspec.json.encode(spec).decode()


def decode_hooks(text: str) -> HookSpec:
    """What an annotation asks for. Raises BadInput, which names the field and what is allowed."""
    try:
        spec = msgspec.json.decode(text, type=HookSpec)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise BadInput(HOOKS_FIELD, repr(text[:_SHOWN]), f"{error}; give JSON such as {_EXAMPLE}") from None
    if problem := problem_of_hooks(spec):
        raise BadInput(HOOKS_FIELD, repr(text[:_SHOWN]), problem)
    return spec


_SHOWN: Final = 200  # characters of what was given, in a message
_EXAMPLE: Final = '{"pre":{"command":["sync"]},"post":{"command":["true"]}}'


def hooks_of(meta: Meta) -> HookSpec | None:
    """What a snapshot asks for. Raises BadInput."""
    text = meta.annotations.get(HOOKS)
    return None if text is None else decode_hooks(text)


def problem_of_hooks(spec: HookSpec) -> str:
    """What is wrong with a spec that did not go through a schema; empty: nothing."""
    if spec.preset and (spec.pre or spec.post):
        return "preset: it has commands of its own; leave out either preset, or pre and post"
    if not 1 <= spec.max_freeze_seconds <= LONGEST_FREEZE:
        return f"maxFreezeSeconds: {spec.max_freeze_seconds} is not a number of seconds from 1 to {LONGEST_FREEZE}"
    for name, one in (("pre", spec.pre), ("post", spec.post)):
        if one is not UNSET and (problem := problem_of_command(one)):
            return f"{name}.{problem}"
    return ""


def problem_of_command(one: HookCommand) -> str:
    size = sum(len(word.encode("utf-8", "surrogatepass")) for word in one.command)
    if not one.command or not one.command[0]:
        return "command: it is empty; give a program and its arguments"
    if len(one.command) > MOST_WORDS or size > MOST_BYTES:
        return f"command: {len(one.command)} words and {size} bytes; {MOST_WORDS} and {MOST_BYTES} are allowed"
    if any("\0" in word for word in one.command):
        return "command: it has a NUL character, which no command can have"
    if not 1 <= one.timeout_seconds <= LONGEST_TIMEOUT:
        return f"timeoutSeconds: {one.timeout_seconds} is not a number of seconds from 1 to {LONGEST_TIMEOUT}"
    return ""
