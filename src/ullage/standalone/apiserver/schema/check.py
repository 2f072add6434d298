"""Validation by keyword: a schema compiled into closures that append what they find wrong.

Only values of the keyword's own type are judged by it (a `maximum` says nothing about a string), and a value of the wrong
type is not judged further.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.schema import scalars
from ullage.standalone.apiserver.schema.faults import Check, Fault, Faults, TooManyFaults, bad_somewhere, bad_value
from ullage.standalone.apiserver.schema.node import Place
from ullage.standalone.apiserver.schema.prune import spell
from ullage.standalone.apiserver.status import required, too_many


def compile_check(raw: Json) -> Check:
    """One function for the whole schema below `raw`."""
    typed, enum, quantors = scalars.type_check(raw), scalars.enum(raw), _quantors(raw)
    number = scalars.number(raw)
    groups = {
        kind: tuple(check for check in checks if check is not None)
        for kind, checks in (
            (str, (quantors, scalars.string(raw), scalars.format_of(raw), enum)),
            (int, (quantors, number, enum)),
            (float, (quantors, number, enum)),
            (bool, (quantors, enum)),
            (list, (quantors, _array(raw), enum)),
            (dict, (quantors, enum, _object(raw))),
            (type(None), (quantors, enum)),
        )
    }

    def check(value: Any, place: Place, faults: list[Fault]) -> None:
        if typed is not None and typed(value, place, faults):
            return
        for one in groups[type(value)]:
            one(value, place, faults)

    return check


def _array(raw: Json) -> Check | None:
    item = compile_check(raw["items"]) if isinstance(raw.get("items"), dict) else None
    fewest, most = raw.get("minItems"), raw.get("maxItems")
    if item is None and fewest is None and most is None:
        return None

    def check(value: list[Any], place: Place, faults: list[Fault]) -> None:
        if item is not None:
            for index, one in enumerate(value):
                item(one, (place, index), faults)
        if fewest is not None and len(value) < fewest:
            faults.append(bad_value(place, str(len(value)), f"{spell(place)} in body should have at least {fewest} items"))
        if most is not None and len(value) > most:
            faults.append(Fault(place, too_many(spell(place), len(value), most)))

    return check


def _object(raw: Json) -> Check | None:
    fields = {name: compile_check(schema) for name, schema in (raw.get("properties") or {}).items()}
    additional = compile_check(raw["additionalProperties"]) if isinstance(raw.get("additionalProperties"), dict) else None
    needed = tuple(raw.get("required") or ())
    if raw.get("x-kubernetes-embedded-resource"):
        needed = tuple(dict.fromkeys(("apiVersion", "kind", *needed)))
    fewest, most = raw.get("minProperties"), raw.get("maxProperties")

    def check(value: Json, place: Place, faults: list[Fault]) -> None:
        for key, item in value.items():
            if (one := fields.get(key) or additional) is not None:
                one(item, (place, key), faults)
        for key in needed:
            if key not in value:
                faults.append(Fault(place, required(spell((place, key)))))
        if fewest is not None and len(value) < fewest:
            faults.append(bad_value(place, str(len(value)), f"{spell(place)} in body should have at least {fewest} properties"))
        if most is not None and len(value) > most:
            faults.append(Fault(place, too_many(spell(place), len(value), most)))

    return check


def _quantors(raw: Json) -> Check | None:
    """allOf, anyOf, oneOf, not: each branch judges the same value."""
    every = [compile_check(branch) for branch in raw.get("allOf") or ()]
    some = [compile_check(branch) for branch in raw.get("anyOf") or ()]
    one = [compile_check(branch) for branch in raw.get("oneOf") or ()]
    never = compile_check(raw["not"]) if isinstance(raw.get("not"), dict) else None
    if not (every or some or one or never):
        return None

    def check(value: Any, place: Place, faults: list[Fault]) -> None:
        if some:
            _any_of(some, value, place, faults)
        if one:
            _one_of(one, value, place, faults)
        if every:
            _all_of(every, value, place, faults)
        if never is not None and not _outcome(never, value, place):
            faults.append(bad_somewhere(place, f'"{spell(place)}" must not validate the schema (not)'))

    return check


def _outcome(branch: Check, value: Any, place: Place) -> list[Fault]:
    found = Faults()
    with suppress(TooManyFaults):
        branch(value, place, found)
    return found


def _fewest(outcomes: list[list[Fault]]) -> list[Fault]:
    return min(outcomes, key=len)


def _any_of(branches: list[Check], value: Any, place: Place, faults: list[Fault]) -> None:
    outcomes = [_outcome(branch, value, place) for branch in branches]
    if all(outcomes):
        faults.append(bad_somewhere(place, f'"{spell(place)}" must validate at least one schema (anyOf)'))
        faults.extend(_fewest(outcomes))


def _one_of(branches: list[Check], value: Any, place: Place, faults: list[Fault]) -> None:
    outcomes = [_outcome(branch, value, place) for branch in branches]
    valid = sum(not outcome for outcome in outcomes)
    if valid == 1:
        return
    found = "none valid" if not valid else f"{valid} valid alternatives"
    faults.append(bad_somewhere(place, f'"{spell(place)}" must validate one and only one schema (oneOf). Found {found}'))
    if not valid:
        faults.extend(_fewest(outcomes))


def _all_of(branches: list[Check], value: Any, place: Place, faults: list[Fault]) -> None:
    outcomes = [_outcome(branch, value, place) for branch in branches]
    if not any(outcomes):
        return
    for outcome in outcomes:
        faults.extend(outcome)
    none = ". None validated" if all(outcomes) else ""
    faults.append(bad_somewhere(place, f'"{spell(place)}" must validate all the schemas (allOf){none}'))
