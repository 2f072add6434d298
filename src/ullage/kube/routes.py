"""What a slice's REST routes are written with: a `Route` says where it is and who may use it, a `RouteCall` is one request that
was let in, a `Reply` the answer.

A route is a value; `rest/` serves it, checks who asks before anything else is looked at, and documents it. What a caller is
to be told in place of an answer is raised as `Declined`; whatever else goes wrong inside a route is told without its details.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ullage.errors import Terminal
from ullage.kube.errors import Cause
from ullage.kube.kinds import Kind, Value
from ullage.kube.objects import Json
from ullage.kube.review import UserInfo
from ullage.names import is_label

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

NAMESPACE: Final = "namespace"  # the part of a path that says where access is asked for
_PATH: Final = re.compile(r"(/([A-Za-z0-9][-A-Za-z0-9._]*|\{[a-z]+\}))+")
_PART: Final = re.compile(r"\{([a-z]+)\}")
_ACTION: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*")


class Declined(Terminal):
    """What a caller is told in place of an answer, as a Status: HTTP's code, Kubernetes' word for it, and a sentence."""

    def __init__(self, code: int, reason: str, message: str, *, details: Json | None = None, retry_after: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.retry_after = retry_after  # seconds

    @classmethod
    def missing(cls, kind: Kind[Any], name: str, *, namespace: str = "") -> Declined:
        """There is no such object."""
        where = f" in namespace {namespace}" if namespace else ""
        details = {"name": name, "group": kind.group, "kind": kind.plural}
        return cls(404, "NotFound", f'{kind.name} "{name}" not found{where}', details=details)

    @classmethod
    def invalid(cls, field_path: str, problem: str) -> Declined:
        """What was sent is wrong: the field, and what about it."""
        cause = Cause(field=field_path, reason="FieldValueInvalid", message=problem)
        message = f"{field_path}: {problem}" if field_path else problem
        return cls(422, "Invalid", message, details={"causes": [cause]})

    @classmethod
    def conflict(cls, message: str) -> Declined:
        """It cannot be done as things are."""
        return cls(409, "Conflict", message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """What a caller must be allowed to do, by the roles of the cluster: in the namespace that the path names, or everywhere."""

    verb: str
    kind: Kind[Any]
    name: str = ""  # of the one object that it is about; what the path names may be in it: `project-{id}`
    words: str  # in a refusal: "update resource quota"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """What may be said behind the `?` of a request, once."""

    name: str
    description: str
    values: tuple[str, ...] = ()  # those that are allowed; none: all are


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteCall:
    """One request of somebody who may make it."""

    user: UserInfo
    names: Mapping[str, str]  # what the path names; each is one that an object can have
    query: Mapping[str, str] = field(default_factory=dict)  # the route's parameters, those that were given
    body: Any = None  # of the route's type


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer; its code is the route's. `warnings` are for people."""

    body: Value | Sequence[Value] | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One thing that can be asked for. It has one path, or several spellings of it, and where it is an action on an object,
    one or several spellings of `?action=`; the first is the one that is documented as such.

    What is wrong with what was sent is answered 422, as Kubernetes does, or 400 where clients of an older API expect that.
    """

    name: str  # in metrics and logs
    method: Method
    paths: tuple[str, ...]  # /v1/things/{namespace}/{name}
    actions: tuple[str, ...] = ()
    access: Permission
    answer: Callable[[RouteCall], Awaitable[Reply]]
    query: tuple[Parameter, ...] = ()
    body: type[Value] | None = None
    reply: type[Value] | None = None  # in the document
    many: bool = False  # a list of those is answered
    code: int = 200
    invalid: Literal[400, 422] = 422
    summary: str
    description: str = ""
    refusals: Mapping[int, str] = field(default_factory=dict)  # beyond those that every route has

    def __post_init__(self) -> None:
        if not is_label(self.name):
            raise ValueError(f"route {self.name!r}: a name is lower-case letters, digits and dashes, 63 at most")
        if not self.paths:
            raise ValueError(f"route {self.name}: it has no path")
        for path in self.paths:
            if not _PATH.fullmatch(path):
                raise ValueError(f"route {self.name}: {path} is no path such as /v1/things/{{namespace}}/{{name}}")
        for action in self.actions:
            if not _ACTION.fullmatch(action):
                raise ValueError(f"route {self.name}: {action!r} is no action: it has letters and digits")
        if len({parts_of(path) for path in self.paths}) > 1:
            raise ValueError(f"route {self.name}: its paths do not name the same things")
        if strange := sorted(parts_of(self.access.name) - parts_of(self.paths[0])):
            raise ValueError(f"route {self.name}: access is asked for with {{{strange[0]}}}, which its path does not name")
        if self.access.kind.namespaced and NAMESPACE not in parts_of(self.paths[0]):
            raise ValueError(f"route {self.name}: no {{namespace}} in its path, and access is asked for in one")


def filled(text: str, names: Mapping[str, str]) -> str:
    """A text with what a path names put in: `project-abc` of `project-{id}`."""
    return _PART.sub(lambda found: names[found[1]], text)


def parts_of(path: str) -> frozenset[str]:
    """What a path names: `namespace` and `name` of /v1/things/{namespace}/{name}."""
    return frozenset(_PART.findall(path))
