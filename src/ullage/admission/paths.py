"""The paths of our own cluster's hooks, which cannot be guessed, as a state machine over a Secret that all replicas share.

A webhook that is registered without client certificates cannot tell an API server from any other client of its port. So each
hook has a path that ends in a token, and a request under another path is a 404. API servers print the path in their errors
while we are away, so it is a hurdle and no lock: it changes after each time that we were away, and once an hour besides.

Tokens are numbered, and made from the number, the hook's name and a key. One number is registered. Each replica also serves the
next few numbers, so a replica that has not read the Secret yet knows what another one registers:

    steady ──rotate──▶  the next number is the present one, and is registered; the former ones are still served
           ──(keep)──▶  every API server has had time to read the registration, and every request has ended
           ──retire──▶  steady

Every replica runs this, without a leader: a step is one compare-and-swap on the Secret. The waits are measured by each replica
on its own clock, from the moment it saw the state. Earlier releases registered paths without a token: those are served, and
stay registered for `settle` seconds, since replicas of such a release may be asked meanwhile; then they are rotated out.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from ullage.errors import Terminal

KEY, NUMBER, OLDEST, PLAIN = "key", "number", "oldest", "plain"  # in the Secret
KEY_BYTES: Final = 32
AHEAD: Final = 4  # numbers that may be used before a replica reads the Secret again
SEARCHED: Final = 10_000  # numbers after that of the Secret among which one that is registered is looked for


class BadPaths(Terminal):
    """The Secret is there, and cannot be used. After its deletion and a restart there is a new one, and all paths change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathTerms:
    """Seconds. `keep` is longer than replicas take to look at the Secret, plus what a request may take."""

    settle: float = 120.0
    keep: float = 90.0
    every: float = 3600.0


@dataclass(frozen=True, slots=True)
class PathState:
    """What the Secret holds. `plain`: paths without a token are served as well."""

    key: bytes = field(repr=False)
    number: int = 0
    oldest: int = 0
    plain: bool = False

    def token(self, hook: str, number: int | None = None) -> str:
        """The token of a hook; without a number the present one. One hook's tokens tell nothing of another's."""
        text = f"path/{self.number if number is None else number}/{hook}"
        return hmac.digest(self.key, text.encode(), hashlib.sha256).hex()

    def tokens(self, hook: str) -> tuple[str, ...]:
        """Every token under which the hook is served."""
        served = tuple(self.token(hook, number) for number in range(self.oldest, self.number + AHEAD + 1))
        return (*served, "") if self.plain else served


@dataclass(frozen=True, slots=True)
class RegisteredPaths:
    """What is registered: the numbers of the tokens, whether there are paths without one, and paths that are none of ours."""

    numbers: frozenset[int] = frozenset()
    plain: bool = False
    unknown: bool = False

    @property
    def any(self) -> bool:
        return bool(self.numbers) or self.plain or self.unknown


class PathStep(Enum):
    ADOPT = "paths of an earlier release are served as well"
    CATCH_UP = "the Secret was older than what is registered or served, and has its number again"
    RENEW = "what is registered is not ours: there is a new key"
    PUBLISH = "the present paths are registered"
    ROTATE = "there are new paths, and the former ones are still served"
    RETIRE = "former paths are not served any more"


def initial_paths(key: bytes) -> PathState:
    return PathState(_checked(key))


def find_registered(state: PathState, entries: Iterable[tuple[str, str | None]]) -> RegisteredPaths:
    """`entries` are hooks and their registered tokens: "" for a path without one, None for a path that is no hook's."""
    numbers: set[int] = set()
    plain = unknown = False
    for hook, token in entries:
        if token == "":
            plain = True
        elif token is None or (number := _number(state, hook, token, guess=numbers)) is None:
            unknown = True
        else:
            numbers.add(number)
    return RegisteredPaths(frozenset(numbers), plain, unknown)


def _number(state: PathState, hook: str, token: str, *, guess: Collection[int]) -> int | None:
    likely = (*guess, *range(state.oldest, state.number + AHEAD + 1))
    for numbers in (likely, range(max(0, state.oldest - SEARCHED), state.number + SEARCHED)):
        for number in numbers:
            if hmac.compare_digest(state.token(hook, number).encode(), token.encode("utf-8", "replace")):
                return number
    return None


def next_path_step(
    state: PathState, registered: RegisteredPaths, terms: PathTerms, *, watched: float, burned: int | None, starting: bool
) -> PathStep | None:
    """What to do now, or None.

    `watched` is for how many seconds state and registration have been seen as they are, `burned` the newest number that may
    have been printed in an error. `starting`: this replica has served nothing yet, and knows of no other state.
    """
    if registered.plain and not state.plain:
        return PathStep.ADOPT
    newest = max(registered.numbers, default=state.number)
    if newest > state.number:
        return PathStep.CATCH_UP
    if starting and registered.unknown and not registered.numbers:
        return PathStep.RENEW
    if burned is not None and state.number <= burned and state.number - state.oldest < AHEAD:
        return PathStep.ROTATE
    if registered.plain and not registered.numbers and watched < terms.settle:
        return None
    if registered.any and registered != RegisteredPaths(frozenset({state.number})):
        return PathStep.PUBLISH
    if state.oldest < state.number or state.plain:
        return PathStep.RETIRE if registered.any and watched >= terms.keep else None
    return PathStep.ROTATE if watched >= terms.every else None


def apply_path_step(step: PathStep, state: PathState, registered: RegisteredPaths, *, key: bytes) -> PathState:
    """The state after a step. Publishing changes nothing here. `key` is for a step that needs a new one."""
    match step:
        case PathStep.ADOPT:
            return replace(state, plain=True)
        case PathStep.CATCH_UP:
            newest = max(registered.numbers, default=state.number)
            return replace(state, number=newest, oldest=max(min(registered.numbers, default=newest), newest - AHEAD))
        case PathStep.RENEW:
            return replace(state, key=_checked(key), number=0, oldest=0)
        case PathStep.ROTATE:
            return replace(state, number=state.number + 1)
        case PathStep.RETIRE:
            return replace(state, oldest=state.number, plain=False)
        case PathStep.PUBLISH:
            return state


def latest(known: PathState | None, read: PathState) -> PathState:
    """What holds where the Secret was read after something was `known`. A Secret that was rolled back brings no number back: a
    number that was used may have been printed."""
    if known is None or known.key != read.key or known.number <= read.number:
        return read
    return known


def to_secret(state: PathState) -> dict[str, bytes]:
    return {
        KEY: state.key,
        NUMBER: str(state.number).encode(),
        OLDEST: str(state.oldest).encode(),
        PLAIN: b"true" if state.plain else b"false",
    }


def from_secret(data: Mapping[str, bytes]) -> PathState:
    """Raises BadPaths, with the member's name, for a Secret that holds something else."""
    numbers = []
    for name in (NUMBER, OLDEST):
        text = data.get(name, b"")
        if not (text.isascii() and text.isdigit() and len(text) <= 15):
            raise BadPaths(f"{name} is no number")
        numbers.append(int(text))
    number, oldest = numbers
    if not number - AHEAD <= oldest <= number:
        raise BadPaths(f"{OLDEST} is {oldest}, and has to be between {max(0, number - AHEAD)} and {NUMBER}, {number}")
    if data.get(PLAIN) not in (b"true", b"false"):
        raise BadPaths(f"{PLAIN} is neither true nor false")
    return PathState(_checked(data.get(KEY, b"")), number, oldest, data[PLAIN] == b"true")


def _checked(key: bytes) -> bytes:
    if len(key) < KEY_BYTES:
        raise BadPaths(f"{KEY} has {len(key)} bytes, and needs {KEY_BYTES}")
    return key


class Paths:
    """What a replica serves now. Without a state nothing is."""

    def __init__(self, hooks: Iterable[str], *states: PathState) -> None:
        self._hooks = tuple(hooks)
        self._tokens: dict[str, tuple[bytes, ...]] = {}
        self.serve(*states)

    def serve(self, *states: PathState) -> None:
        """Serves what these states have, and nothing else."""
        self._tokens = {
            hook: tuple(token.encode() for token in dict.fromkeys(one for state in states for one in state.tokens(hook)))
            for hook in self._hooks
        }

    def is_known(self, hook: str, token: str) -> bool:
        """Whether the hook is served under the token now. It takes as long for any token."""
        given, known = token.encode("utf-8", "replace"), False
        for one in self._tokens.get(hook, ()):
            known |= hmac.compare_digest(one, given)
        return known
