"""What a slice's webhook is written with: a `Hook` says what it wants to see, a `Review` is one request, a `Decision` the
answer.

A hook is a value; `admission/` serves it and registers it. Whatever goes wrong inside a hook, the answer is never "allowed": an
exception is an error (the failure policy refuses then), `Retryable` and a spent budget are "try again" (429).
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import msgspec

from ullage.errors import Terminal
from ullage.kube.errors import Cause
from ullage.kube.kinds import Kind, Object, Value, decode_as_go
from ullage.kube.objects import Json
from ullage.kube.overlay import difference, overlay
from ullage.names import is_label

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
Phase = Literal["mutate", "validate"]
Scope = Literal["Namespaced", "Cluster", "*"]
T = TypeVar("T", bound=Object)

NULL = msgspec.Raw(b"null")
LONGEST_TIMEOUT = 30  # seconds, what the API allows


class Unreadable(Terminal):
    """The object does not fit its type: a refusal that names the field. Mutating hooks see objects that no schema has
    checked."""

    def __init__(self, field_path: str, problem: str) -> None:
        super().__init__(f"{field_path or 'object'}: {problem}")
        self.cause = Cause(field=field_path, reason="FieldValueInvalid", message=problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Which requests a hook wants to see: one entry of `rules`. Subresources are named (`snapshots/status`) or not seen."""

    groups: tuple[str, ...]
    versions: tuple[str, ...]
    resources: tuple[str, ...]
    operations: tuple[Operation, ...]
    scope: Scope

    @classmethod
    def of(cls, kind: Kind[Any], *operations: Operation, subresources: tuple[str, ...] = ()) -> Target:
        """Requests for a kind and, where named, for its subresources; `subresources=("", "status")` sees both."""
        names = tuple(f"{kind.plural}/{part}" if part else kind.plural for part in subresources or ("",))
        scope: Scope = "Namespaced" if kind.namespaced else "Cluster"
        return cls(groups=(kind.group,), versions=(kind.version,), resources=names, operations=operations, scope=scope)


class GroupVersionKind(Value):
    group: str = ""
    version: str
    kind: str


class GroupVersionResource(Value):
    group: str = ""
    version: str
    resource: str


class UserInfo(Value):
    """Who asks."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}


class Request(Value):
    """An AdmissionRequest on the wire. The objects stay undecoded until somebody wants them."""

    uid: str
    operation: Operation
    kind: GroupVersionKind
    resource: GroupVersionResource
    sub_resource: str = ""
    namespace: str = ""
    name: str = ""
    user_info: UserInfo = UserInfo()
    dry_run: bool = False
    object: msgspec.Raw = NULL
    old_object: msgspec.Raw = NULL
    options: msgspec.Raw = NULL


@dataclass(frozen=True, slots=True)
class Review:
    """One request for admission. `deadline` is on the monotonic clock: a hook that waits for something stops there by
    itself. `cluster` is the one that asks; empty: our own."""

    request: Request
    deadline: float = math.inf
    cluster: str = ""

    @property
    def uid(self) -> str:
        """The review's own id, not the object's. A re-run of admission has another one."""
        return self.request.uid

    @property
    def operation(self) -> Operation:
        return self.request.operation

    @property
    def kind(self) -> GroupVersionKind:
        return self.request.kind

    @property
    def resource(self) -> GroupVersionResource:
        return self.request.resource

    @property
    def subresource(self) -> str:
        return self.request.sub_resource

    @property
    def namespace(self) -> str:
        return self.request.namespace

    @property
    def name(self) -> str:
        """Empty while a generated name is not made: in the mutating phase."""
        return self.request.name

    @property
    def user(self) -> UserInfo:
        return self.request.user_info

    @property
    def dry_run(self) -> bool:
        """Decide as ever, but write nothing."""
        return self.request.dry_run

    def object(self, kind: Kind[T]) -> T:
        """The object as it is about to be. A deletion has none."""
        found = self._read(kind, self.request.object)
        if found is None:
            raise LookupError(f"a review of {self.operation} carries no object")
        return found

    def old(self, kind: Kind[T]) -> T | None:
        """The object as it is stored. A creation has none."""
        return self._read(kind, self.request.old_object)

    def object_json(self) -> Json:
        """The whole object, freshly decoded: the caller may change it."""
        return _json(self.request.object)

    def change(self, old: Value | Json, new: Value | Json, *, warnings: tuple[str, ...] = ()) -> Decision:
        """Allows the request with the object changed as `old` was into `new`. Both may be typed; fields without a type stay."""
        whole = self.object_json()
        changed = overlay(whole, old=_builtins(old), new=_builtins(new))
        return Decision.allow(warnings=warnings, patch=tuple(difference(whole, changed)))

    def _read(self, kind: Kind[T], raw: msgspec.Raw) -> T | None:
        seen = self.request.kind
        if (seen.group, seen.version, seen.kind) != (kind.group, kind.version, kind.kind):
            shown = f"{seen.group}/{seen.version} {seen.kind}"
            raise TypeError(f"a review of {shown} was read as {kind.api_version} {kind.kind}")
        if raw == NULL:
            return None
        try:
            return decode_as_go(raw, _decoder(kind.type))
        except msgspec.ValidationError as error:
            raise _unreadable(error) from error
        except RecursionError as error:
            raise Unreadable("", "it is nested too deeply") from error


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer. Made by its constructors, so that a refusal always has a code, a reason and a sentence."""

    allowed: bool
    warnings: tuple[str, ...] = ()
    patch: tuple[Json, ...] = ()
    code: int = 200
    reason: str = ""
    message: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after: int = 0
    audit: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def allow(cls, *, warnings: tuple[str, ...] = (), patch: tuple[Json, ...] = ()) -> Decision:
        return cls(allowed=True, warnings=warnings, patch=patch)

    @classmethod
    def refuse(
        cls,
        message: str,
        *,
        code: int = 403,
        reason: str = "Forbidden",
        causes: tuple[Cause, ...] = (),
        warnings: tuple[str, ...] = (),
    ) -> Decision:
        """Only an edit, or a higher limit, can help."""
        return cls(allowed=False, code=code, reason=reason, message=message, causes=causes, warnings=warnings)

    @classmethod
    def invalid(cls, message: str, *causes: Cause) -> Decision:
        """The object itself is wrong: 422, each fault with its field."""
        return cls(allowed=False, code=422, reason="Invalid", message=message, causes=causes)

    @classmethod
    def again(cls, message: str, *, retry_after: float = 1.0) -> Decision:
        """It could not be decided now. Clients wait as long as they are told, and try again."""
        wait = max(1, math.ceil(retry_after))
        return cls(allowed=False, code=429, reason="TooManyRequests", message=message, retry_after=wait)


Answer = Callable[[Review], Awaitable[Decision]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A webhook, declared. `not_in` and `only_in` are namespaces: each hook has its own, there is no blanket exclusion.
    `namespace_labels` are those that a namespace must have: whoever may take them off switches the hook off there.

    One that is `elsewhere` is for other clusters, and not for our own: who asks there may be anybody, and says what he likes.
    """

    name: str
    phase: Phase
    targets: tuple[Target, ...]
    answer: Answer
    not_in: tuple[str, ...] = ()
    only_in: tuple[str, ...] = ()
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)  # only objects with these
    only_if: Mapping[str, str] = field(default_factory=dict)  # by name: CEL over the request; while it is away, all others pass
    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    timeout: int = 10
    side_effects: Literal["NoneOnDryRun", "None"] = "NoneOnDryRun"
    reinvoke: bool = False  # mutating only: asked again when a later hook changed the object
    elsewhere: bool = False

    def __post_init__(self) -> None:
        if not is_label(self.name):
            raise ValueError(f"hook {self.name!r}: a name is lower-case letters, digits and dashes, 63 at most")
        if not self.targets:
            raise ValueError(f"hook {self.name}: it has no target, so it would never be asked")
        if not 1 <= self.timeout <= LONGEST_TIMEOUT:
            raise ValueError(f"hook {self.name}: a timeout is 1 to {LONGEST_TIMEOUT} s, not {self.timeout}")
        clustered = [target for target in self.targets if target.scope == "Cluster"]
        if clustered and (self.not_in or self.only_in or self.namespace_labels):
            raise ValueError(f"hook {self.name}: a cluster-scoped kind is in no namespace, so none can be excluded")
        if self.reinvoke and self.phase == "validate":
            raise ValueError(f"hook {self.name}: only a mutating hook is asked again")


_decoders: dict[type[Object], msgspec.json.Decoder[Any]] = {}


def _decoder(wanted: type[T]) -> msgspec.json.Decoder[T]:
    found = _decoders.get(wanted)
    if found is None:
        found = _decoders[wanted] = msgspec.json.Decoder(wanted)
    return found


def _json(raw: msgspec.Raw) -> Json:
    try:
        found = msgspec.json.decode(raw)
    except RecursionError as error:
        raise Unreadable("", "it is nested too deeply") from error
    return found if isinstance(found, dict) else {}


def _builtins(value: Value | Json) -> Any:
    """As decoded from the wire: tuples are lists there."""
    return msgspec.json.decode(msgspec.json.encode(value)) if isinstance(value, Value) else value


def _unreadable(error: msgspec.ValidationError) -> Unreadable:
    problem, mark, place = str(error).partition(" - at `$")
    return Unreadable(place.rstrip("`").removeprefix(".") if mark else "", problem)
