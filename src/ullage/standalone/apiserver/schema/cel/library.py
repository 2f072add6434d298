"""The functions that Kubernetes adds to CEL: quantities, addresses, versions, lists, regular expressions, sets.

The CEL library takes only plain values from Python, so an amount, an address or a version travels between these functions
as a map with one entry that names its kind (`{"quantity": "1500000000"}`), normalised so that equal things are equal maps.
Overloads are declared for each element type: the library does not match DYN parameters against real values.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import islice, pairwise
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cel_expr_python import cel

from ullage.quantity import Quantity
from ullage.standalone.apiserver.schema import regexp

Boxed = dict[str, str]
_LONGEST_RANGE = 10_000
_MAP = cel.Type.Map(cel.Type.STRING, cel.Type.DYN)
_LIST = cel.Type.List(cel.Type.DYN)
_STRING = cel.Type.STRING
_INT = cel.Type.INT
_BOOL = cel.Type.BOOL
_DOUBLE = cel.Type.DOUBLE
_SCALARS = (_INT, _DOUBLE, _STRING, _BOOL, cel.Type.DURATION, cel.Type.TIMESTAMP, cel.Type.BYTES)


# Quantities
def _quantity(text: str) -> Boxed:
    return {"quantity": str(Quantity.parse(text).nanos)}


def _nanos(boxed: Boxed) -> int:
    return int(boxed["quantity"])


def _as_integer(boxed: Boxed) -> int:
    units, rest = divmod(_nanos(boxed), 10**9)
    if rest or not -(2**63) <= units < 2**63:
        raise ValueError("cannot convert value to integer")
    return units


def _is_integer(boxed: Boxed) -> bool:
    units, rest = divmod(_nanos(boxed), 10**9)
    return not rest and -(2**63) <= units < 2**63


def _shift(sign: int) -> tuple[Callable[[Boxed, Boxed], Boxed], Callable[[Boxed, int], Boxed]]:
    return (
        lambda a, b: {"quantity": str(_nanos(a) + sign * _nanos(b))},
        lambda a, b: {"quantity": str(_nanos(a) + sign * b * 10**9)},
    )


# Semantic versions
_SEMVER = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII)


def _semver(text: str) -> Boxed:
    if _SEMVER.fullmatch(text) is None:
        raise ValueError(f'No Major.Minor.Patch elements found in "{text}"')
    return {"semver": text.partition("+")[0]}


def _semver_part(place: int) -> Callable[[Boxed], int]:
    return lambda boxed: int(boxed["semver"].partition("-")[0].split(".")[place])


def _semver_key(boxed: Boxed) -> tuple[Any, ...]:
    numbers, dash, before = boxed["semver"].partition("-")
    labels = (
        [(0, int(part), "") if part.isascii() and part.isdecimal() else (1, 0, part) for part in before.split(".")]
        if dash
        else []
    )
    return ([int(part) for part in numbers.split(".")], not dash, labels)


def _compare(a: Boxed, b: Boxed) -> int:
    """Three-way, for both kinds that have an order."""
    left: Any = _nanos(a) if "quantity" in a else _semver_key(a)
    right: Any = _nanos(b) if "quantity" in a else _semver_key(b)
    return int(left > right) - int(left < right)


# Addresses
def _ip(text: str) -> Boxed:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise ValueError(
            f'IP Address "{text}" parse error during conversion from string: ParseAddr("{text}"): unable to parse IP'
        ) from None
    if "%" in text:
        raise ValueError(f'IP Address "{text}" with zone value is not allowed')
    if getattr(address, "ipv4_mapped", None) is not None:
        raise ValueError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return {"ip": str(address)}


def _address(value: str | Boxed) -> Any:
    return ipaddress.ip_address(value["ip"] if isinstance(value, dict) else _ip(value)["ip"])


def _cidr(text: str) -> Boxed:
    try:
        if "/" not in text:
            raise ValueError("no '/'")
        return {"cidr": str(ipaddress.ip_interface(text))}
    except ValueError:
        parse = f'netip.ParsePrefix("{text}"): ParseAddr("{text.partition("/")[0]}"): unable to parse IP'
        raise ValueError(f"network address parse error during conversion from string: {parse}") from None


def _network(value: str | Boxed) -> Any:
    return ipaddress.ip_interface(value["cidr"] if isinstance(value, dict) else _cidr(value)["cidr"])


def _contains_ip(network: Boxed, address: str | Boxed) -> bool:
    return _address(address) in _network(network).network


def _contains_cidr(network: Boxed, inner: str | Boxed) -> bool:
    outside, inside = _network(network).network, _network(inner).network
    return bool(outside.version == inside.version and inside.subnet_of(outside))


def _address_test(name: str) -> Callable[[Boxed], bool]:
    return lambda boxed: bool(getattr(_address(boxed), name))


def _global_unicast(boxed: Boxed) -> bool:
    address = _address(boxed)
    return not (address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local)


# URLs
def _url(text: str) -> Boxed:
    if not text or re.search(r"[\x00-\x20\x7f]", text) or not (text.startswith("/") or urlsplit(text).scheme):
        raise ValueError(f'URL parse error during conversion from string: parse "{text}": invalid URI for request')
    return {"url": text}


def _url_part(read: Callable[[Any], str]) -> Callable[[Boxed], str]:
    return lambda boxed: read(urlsplit(boxed["url"]))


def _query(boxed: Boxed) -> dict[str, list[str]]:
    return parse_qs(urlsplit(boxed["url"]).query, keep_blank_values=True)


# Regular expressions
def _find(text: str, pattern: str) -> str:
    return next(regexp.occurrences(pattern, text), "")


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    return list(islice(regexp.occurrences(pattern, text), None if limit < 0 else limit))


# Lists
def _sum(values: list[Any]) -> Any:
    return sum(values, timedelta()) if values and isinstance(values[0], timedelta) else sum(values)


def _extreme(name: str, pick: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def function(values: list[Any]) -> Any:
        if not values:
            raise ValueError(f"{name} called on empty list")
        return pick(values)

    return function


def _index(values: list[Any], wanted: Any) -> int:
    return values.index(wanted) if wanted in values else -1


def _last_index(values: list[Any], wanted: Any) -> int:
    return len(values) - 1 - values[::-1].index(wanted) if wanted in values else -1


def _distinct(values: list[Any]) -> list[Any]:
    found: dict[Any, Any] = {}
    for value in values:
        found.setdefault(_mark(value), value)
    return list(found.values())


def _mark(value: Any) -> Any:
    """Equal for equal values, and hashable."""
    if isinstance(value, list):
        return ("list", tuple(map(_mark, value)))
    if isinstance(value, dict):
        return ("map", frozenset((key, _mark(item)) for key, item in value.items()))
    return (isinstance(value, bool), value)


def _has_all(values: list[Any], wanted: list[Any]) -> bool:
    return set(map(_mark, wanted)) <= set(map(_mark, values))


def _flatten(values: list[Any]) -> list[Any]:
    return [inner for value in values for inner in (value if isinstance(value, list) else [value])]


def _slice(values: list[Any], start: int, end: int) -> list[Any]:
    if not 0 <= start <= end <= len(values):
        raise ValueError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


def _range(count: int) -> list[int]:
    if count > _LONGEST_RANGE:
        raise ValueError(f"lists.range({count}) is longer than {_LONGEST_RANGE}")
    return list(range(count))


def _accepts(make: Callable[[str], object]) -> Callable[[str], bool]:
    """`isQuantity` from `quantity`: does the text parse?"""

    def function(text: str) -> bool:
        try:
            make(text)
        except ValueError:
            return False
        return True

    return function


_Overloads = Sequence[tuple[Any, Sequence[Any], Callable[..., Any]]]


def _overloads(name: str, overloads: _Overloads, *, member: bool) -> list[Any]:
    kind = "member" if member else "global"
    return [
        cel.Overload(f"kubernetes_{name}_{kind}_{place}", result, list(parameters), member, function)
        for place, (result, parameters, function) in enumerate(overloads)
    ]


def _pairs(result: Any, function: Callable[..., Any]) -> _Overloads:
    return [(result, (_LIST, element), function) for element in (*_SCALARS, _MAP, _LIST)]


_plus, _plus_int = _shift(1)
_minus, _minus_int = _shift(-1)

_GLOBAL: dict[str, _Overloads] = {
    "quantity": [(_MAP, (_STRING,), _quantity)],
    "isQuantity": [(_BOOL, (_STRING,), _accepts(_quantity))],
    "semver": [(_MAP, (_STRING,), _semver)],
    "isSemver": [(_BOOL, (_STRING,), _accepts(_semver))],
    "ip": [(_MAP, (_STRING,), _ip)],
    "isIP": [(_BOOL, (_STRING,), _accepts(_ip))],
    "ip.isCanonical": [(_BOOL, (_STRING,), lambda text: _ip(text)["ip"] == text)],
    "cidr": [(_MAP, (_STRING,), _cidr)],
    "isCIDR": [(_BOOL, (_STRING,), _accepts(_cidr))],
    "url": [(_MAP, (_STRING,), _url)],
    "isURL": [(_BOOL, (_STRING,), _accepts(_url))],
    "string": [(_STRING, (_MAP,), lambda boxed: boxed.get("ip") or boxed["cidr"])],
    "sets.contains": [(_BOOL, (_LIST, _LIST), _has_all)],
    "sets.intersects": [(_BOOL, (_LIST, _LIST), lambda a, b: not set(map(_mark, a)).isdisjoint(map(_mark, b)))],
    "sets.equivalent": [(_BOOL, (_LIST, _LIST), lambda a, b: _has_all(a, b) and _has_all(b, a))],
    "lists.range": [(_LIST, (_INT,), _range)],
}
_MEMBER: dict[str, _Overloads] = {
    "isInteger": [(_BOOL, (_MAP,), _is_integer)],
    "asInteger": [(_INT, (_MAP,), _as_integer)],
    "asApproximateFloat": [(_DOUBLE, (_MAP,), lambda boxed: _nanos(boxed) / 10**9)],
    "add": [(_MAP, (_MAP, _MAP), _plus), (_MAP, (_MAP, _INT), _plus_int)],
    "sub": [(_MAP, (_MAP, _MAP), _minus), (_MAP, (_MAP, _INT), _minus_int)],
    "compareTo": [(_INT, (_MAP, _MAP), _compare)],
    "isLessThan": [(_BOOL, (_MAP, _MAP), lambda a, b: _compare(a, b) < 0)],
    "isGreaterThan": [(_BOOL, (_MAP, _MAP), lambda a, b: _compare(a, b) > 0)],
    "major": [(_INT, (_MAP,), _semver_part(0))],
    "minor": [(_INT, (_MAP,), _semver_part(1))],
    "patch": [(_INT, (_MAP,), _semver_part(2))],
    "family": [(_INT, (_MAP,), lambda boxed: _address(boxed).version)],
    "isUnspecified": [(_BOOL, (_MAP,), _address_test("is_unspecified"))],
    "isLoopback": [(_BOOL, (_MAP,), _address_test("is_loopback"))],
    "isLinkLocalUnicast": [(_BOOL, (_MAP,), _address_test("is_link_local"))],
    "isGlobalUnicast": [(_BOOL, (_MAP,), _global_unicast)],
    "containsIP": [(_BOOL, (_MAP, _STRING), _contains_ip), (_BOOL, (_MAP, _MAP), _contains_ip)],
    "containsCIDR": [(_BOOL, (_MAP, _STRING), _contains_cidr), (_BOOL, (_MAP, _MAP), _contains_cidr)],
    "ip": [(_MAP, (_MAP,), lambda boxed: {"ip": str(_network(boxed).ip)})],
    "masked": [(_MAP, (_MAP,), lambda boxed: {"cidr": str(_network(boxed).network)})],
    "prefixLength": [(_INT, (_MAP,), lambda boxed: _network(boxed).network.prefixlen)],
    "getScheme": [(_STRING, (_MAP,), _url_part(lambda parts: parts.scheme))],
    "getHost": [(_STRING, (_MAP,), _url_part(lambda parts: parts.netloc.rpartition("@")[2]))],
    "getHostname": [(_STRING, (_MAP,), _url_part(lambda parts: parts.hostname or ""))],
    "getPort": [(_STRING, (_MAP,), _url_part(lambda parts: str(parts.port or "")))],
    "getEscapedPath": [(_STRING, (_MAP,), _url_part(lambda parts: parts.path))],
    "getQuery": [(_MAP, (_MAP,), _query)],
    "find": [(_STRING, (_STRING, _STRING), _find)],
    "findAll": [(_LIST, (_STRING, _STRING), _find_all), (_LIST, (_STRING, _STRING, _INT), _find_all)],
    "isSorted": [(_BOOL, (_LIST,), lambda values: all(a <= b for a, b in pairwise(values)))],
    "sum": [(cel.Type.DYN, (_LIST,), _sum)],
    "min": [(cel.Type.DYN, (_LIST,), _extreme("min", min))],
    "max": [(cel.Type.DYN, (_LIST,), _extreme("max", max))],
    "indexOf": _pairs(_INT, _index),
    "lastIndexOf": _pairs(_INT, _last_index),
    "sort": [(_LIST, (_LIST,), sorted)],
    "distinct": [(_LIST, (_LIST,), _distinct)],
    "flatten": [(_LIST, (_LIST,), _flatten)],
    "slice": [(_LIST, (_LIST, _INT, _INT), _slice)],
}


def extension() -> Any:
    """All of it, to stand last among an environment's extensions: only there may it add overloads to functions that exist."""
    names = dict.fromkeys([*_GLOBAL, *_MEMBER])
    functions = [
        cel.FunctionDecl(
            name,
            [
                *_overloads(name, _GLOBAL.get(name, ()), member=False),
                *_overloads(name, _MEMBER.get(name, ()), member=True),
            ],
        )
        for name in names
    ]
    return cel.CelExtension("kubernetes", functions)
