"""The last round over a CustomResourceDefinition's schema: do its defaults fit it, and do its CEL rules compile?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.schema import CustomSchema, compile_custom
from ullage.standalone.apiserver.schema.cel import program as cel
from ullage.standalone.apiserver.schema.cel import syntax
from ullage.standalone.apiserver.schema.node import Node, build
from ullage.standalone.apiserver.schema.rules import compile_rule
from ullage.standalone.apiserver.status import FieldError, forbidden_field, invalid_value

Faults = Iterator[FieldError]
_RULES = "x-kubernetes-validations"
_NO_TYPES = f"failed to construct type information for {_RULES} rules: unable to convert structural schema to CEL declarations"


def places(raw: Json, path: str) -> Iterator[tuple[Json, str]]:
    """Every schema that describes a value of its own, with its path; the outermost first."""
    yield raw, path
    for name, child in (raw.get("properties") or {}).items():
        yield from places(child, f"{path}.properties[{name}]")
    for key in ("items", "additionalProperties"):
        if isinstance(raw.get(key), dict):
            yield from places(raw[key], f"{path}.{key}")


def semantic_errors(raw: Json, path: str) -> Faults:
    """Faults in the defaults; where there are none, faults in the rules."""
    defaults = list(_defaults(raw, path))
    yield from defaults or _rules(build(raw), path, uncorrelatable="")


def _defaults(raw: Json, path: str) -> Faults:
    metadata = f"{path}.properties[metadata]"
    for schema, place in places(raw, path):
        value = schema.get("default")
        if value is None:
            continue
        if place.startswith(metadata):
            yield forbidden_field(f"{place}.default", "must not be set in top-level metadata")
            continue
        try:
            compiled = compile_custom(schema)
        except cel.CelError:
            compiled = CustomSchema(build(schema), with_rules=False)  # what the rules' fault is, is said after
        copy = msgspec.json.decode(msgspec.json.encode(value))
        if compiled.unknown_in(copy):
            yield invalid_value(f"{place}.default", value, "must not have unknown fields")
        for error in compiled.validate(value):
            field = "" if error.field in ("", "<nil>") else f".{error.field}"
            yield FieldError(error.kind, f"{place}.default{field}", error.body)


def _rules(node: Node, path: str, *, uncorrelatable: str, root: bool = True) -> Faults:
    """Compiles every rule. `uncorrelatable` is the list above whose items cannot be told from their predecessors."""
    for number, rule in enumerate(node.raw.get(_RULES) or ()):
        yield from _rule(node, rule, f"{path}.{_RULES}[{number}]", uncorrelatable=uncorrelatable, root=root)
    for name, child in node.properties.items():
        yield from _rules(child, f"{path}.properties[{name}]", uncorrelatable=uncorrelatable, root=False)
    if node.additional is not None:
        yield from _rules(node.additional, f"{path}.additionalProperties", uncorrelatable=uncorrelatable, root=False)
    if node.items is not None:
        lost = uncorrelatable or ("" if node.list_type == "map" else path)
        yield from _rules(node.items, f"{path}.items", uncorrelatable=lost, root=False)


def _rule(node: Node, rule: Json, place: str, *, uncorrelatable: str, root: bool) -> Faults:
    if not node.type and not node.int_or_string:
        yield FieldError("InternalError", place.rpartition("[")[0], f"Internal error: internal error: {_NO_TYPES}")
        return
    fault = _compiling(lambda: compile_rule(node, {**rule, "messageExpression": ""}, root=root).program.result)
    if fault or fault is None:
        detail = f"compilation failed: {fault}" if fault else "cel expression must evaluate to a bool"
        yield _shown(f"{place}.rule", rule, detail)
        return
    if syntax.mentions(rule["rule"], "oldSelf") and uncorrelatable:
        detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelatable}"
        yield invalid_value(f"{place}.rule", rule["rule"], detail)
    if rule.get("messageExpression"):
        words = {**rule, "rule": rule["messageExpression"], "messageExpression": ""}
        fault = _compiling(lambda: compile_rule(node, words, root=root).program.result, wanted="STRING")
        if fault or fault is None:
            detail = (
                f"messageExpression compilation failed: {fault}" if fault else "messageExpression must evaluate to a string"
            )
            yield _shown(f"{place}.messageExpression", rule, detail)


def _compiling(compile_: Callable[[], str], *, wanted: str = "BOOL") -> str | None:
    """The compiler's complaint; "" where there is none; None where it compiles to the wrong type."""
    try:
        return "" if compile_() in (wanted, "DYN") else None
    except cel.CelError as error:
        return str(error)


def _shown(field: str, rule: Json, detail: str) -> FieldError:
    """These errors show the rule as the server holds it, with `<`, `>` and `&` escaped."""
    value = {
        "Rule": rule.get("rule", ""),
        "Message": rule.get("message", ""),
        "MessageExpression": rule.get("messageExpression", ""),
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath", ""),
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }
    text = msgspec.json.encode(value).decode()
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return FieldError("FieldValueInvalid", field, f"Invalid value: {text}: {detail}")
