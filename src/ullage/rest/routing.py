"""Which route a request means: by its method, the parts of its path, and `?action=`. Pure.

A path is split before its parts are decoded, so that a name with an encoded slash stays one name, and is refused as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote

from ullage.kube.routes import NAMESPACE, Declined, Route
from ullage.names import is_label, is_subdomain

ACTION: Final = "action"
MOST_PARAMETERS: Final = 100


@dataclass(frozen=True, slots=True)
class Place:
    """The routes of one path and method: one that is no action, or some that are."""

    path: str
    method: str
    routes: tuple[Route, ...]

    @property
    def actions(self) -> tuple[str, ...]:
        """In the order in which they are documented: the first spellings first."""
        first = [route.actions[0] for route in self.routes if route.actions]
        return (*first, *(also for route in self.routes for also in route.actions[1:]))


@dataclass(frozen=True, slots=True)
class Found:
    """What is at a path. `names` are as they were given, by the parts of the path: not checked yet."""

    methods: Mapping[str, Place]
    names: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Table:
    """All routes by their paths."""

    places: tuple[Place, ...]
    _by_length: Mapping[int, list[tuple[tuple[str, ...], dict[str, Place]]]] = field(repr=False)

    @classmethod
    def of(cls, routes: Iterable[Route]) -> Table:
        """Raises ValueError where two routes mean the same request."""
        found: dict[str, dict[str, list[Route]]] = {}
        for route in routes:
            for path in route.paths:
                found.setdefault(path, {}).setdefault(route.method, []).append(route)
        places = tuple(
            Place(path, method, tuple(_distinct(path, method, there)))
            for path, methods in found.items()
            for method, there in methods.items()
        )
        by_length: dict[int, list[tuple[tuple[str, ...], dict[str, Place]]]] = {}
        for path, methods in found.items():
            parts = tuple(path.split("/"))
            here = {place.method: place for place in places if place.path == path}
            by_length.setdefault(len(parts), []).append((parts, here))
            assert set(here) == set(methods)
        return cls(places, by_length)

    def find(self, raw_path: bytes) -> Found | None:
        given = raw_path.decode("latin-1").split("/")
        for parts, methods in self._by_length.get(len(given), ()):
            names = _matched(parts, given)
            if names is not None:
                return Found(methods, names)
        return None


def _distinct(path: str, method: str, routes: Sequence[Route]) -> Sequence[Route]:
    spelled = [action for route in routes for action in route.actions or ("",)]
    if len(set(spelled)) < len(spelled) or ("" in spelled and len(spelled) > 1):
        raise ValueError(f"{method} {path}: several routes mean the same request")
    return routes


def _matched(parts: Sequence[str], given: Sequence[str]) -> dict[str, str] | None:
    names: dict[str, str] = {}
    for part, text in zip(parts, given, strict=True):
        if not part.startswith("{"):
            if part != text:
                return None
        elif not text:
            return None
        else:
            names[part[1:-1]] = unquote(text)
    return names


def chosen(place: Place, query: bytes) -> Route:
    """The route that `?action=` names. Raises Declined, with the actions that there are."""
    if not place.actions:
        return place.routes[0]
    allowed = _either(place.actions)
    wanted = [value for name, value in _pairs(query) if name == ACTION]
    if len(wanted) != 1:
        problem = f"it is given {len(wanted)} times" if wanted else "it is missing"
        raise Declined.invalid(ACTION, f"{problem}: {allowed} is allowed")
    for route in place.routes:
        if wanted[0] in route.actions:
            return route
    raise Declined.invalid(ACTION, f"{_shown(wanted[0])} is not known: {allowed} is allowed")


def parameters(route: Route, query: bytes) -> dict[str, str]:
    """What was given of a route's parameters. Raises Declined for one that it does not have: who mistypes a filter would take
    what comes without it for what he asked for. Where a route has none, what is behind the `?` is of no interest."""
    if not route.query:
        return {}
    known = {one.name: one for one in route.query}
    given: dict[str, str] = {}
    for name, value in _pairs(query):
        if name == ACTION and route.actions:
            continue
        if name not in known:
            raise Declined.invalid(_shown(name), f"there is no such parameter: {_either(tuple(known))} is allowed")
        if name in given:
            raise Declined.invalid(name, "it is given several times: once is allowed")
        if known[name].values and value not in known[name].values:
            raise Declined.invalid(name, f"{_shown(value)} is not known: {_either(known[name].values)} is allowed")
        given[name] = value
    return given


def _pairs(query: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=MOST_PARAMETERS)
    except ValueError:
        raise Declined.invalid("query", f"at most {MOST_PARAMETERS} parameters are allowed") from None


def _either(allowed: tuple[str, ...]) -> str:
    return f"{', '.join(allowed[:-1])} or {allowed[-1]}" if len(allowed) > 1 else allowed[0]


def impossible(names: Mapping[str, str]) -> tuple[str, str] | None:
    """The first part of a path that no object can be called, and what it was; None where all can be."""
    for part, text in names.items():
        if not (is_label(text) if part == NAMESPACE else is_subdomain(text)):
            return part, _shown(text)
    return None


def _shown(text: str) -> str:
    shown = "".join(one if one.isprintable() else "�" for one in text[:64])
    return f'"{shown}{"…" if len(text) > 64 else ""}"'
