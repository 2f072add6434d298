"""What an `openAPIV3Schema` may say: the rules that make a schema structural, with kube-apiserver's sentences.

Three rounds, each only if the one before found nothing, as the server does it: keywords that are not supported at all, then the
structure (types everywhere, nothing but value checks below anyOf and its like), then defaults and CEL rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.schema import CustomSchema, compile_custom, regexp
from ullage.standalone.apiserver.schema.cel import program as cel
from ullage.standalone.apiserver.schema.cel import syntax
from ullage.standalone.apiserver.schema.node import RESOURCE_FIELDS, Node, build
from ullage.standalone.apiserver.schema.rules import compile_rule
from ullage.standalone.apiserver.status import FieldError, forbidden_field, invalid_value, not_supported, required

# The last round over a CustomResourceDefinition's schema: do its defaults fit it, and do its CEL rules compile?


Faults = Iterator[FieldError]
_VALIDATIONS = "x-kubernetes-validations"
_NO_TYPES = (
    f"failed to construct type information for {_VALIDATIONS} rules: unable to convert structural schema to CEL declarations"
)


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
    for number, rule in enumerate(node.raw.get(_VALIDATIONS) or ()):
        yield from _rule(node, rule, f"{path}.{_VALIDATIONS}[{number}]", uncorrelatable=uncorrelatable, root=root)
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


_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED = ("$ref", "additionalItems", "definitions", "dependencies", "id", "patternProperties")
_JUNCTORS = ("allOf", "anyOf", "oneOf")
_PRESERVE, _INT_OR_STRING = "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string"
_EMBEDDED, _RULES = "x-kubernetes-embedded-resource", "x-kubernetes-validations"
_LIST_TYPE, _LIST_KEYS, _MAP_TYPE = "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_INT_OR_STRING_TYPES = [{"type": "integer"}, {"type": "string"}]
# What may not stand below anyOf, allOf, oneOf, not.
_FORBIDDEN_BELOW = {
    **dict.fromkeys(
        ("additionalProperties", "default", _LIST_TYPE, _LIST_KEYS, _MAP_TYPE), "must be undefined to be structural"
    ),
    **dict.fromkeys(("description", "title", "type", _RULES), "must be empty to be structural"),
    **dict.fromkeys(("nullable", _PRESERVE, _EMBEDDED, _INT_OR_STRING), "must be false to be structural"),
}


def schema_errors(raw: Json, path: str) -> list[FieldError]:
    """Everything wrong with a version's schema."""
    for round_ in (_keywords, _structure, semantic_errors):
        if found := list(round_(raw, path)):
            return found
    return []


def _keywords(raw: Json, path: str) -> Faults:
    if raw.get("nullable"):
        yield forbidden_field(f"{path}.nullable", "nullable cannot be true at the root")
    for schema, place in places(raw, path):
        for key in _UNSUPPORTED:
            if schema.get(key) is not None:
                yield forbidden_field(f"{place}.{key}", f"{key} is not supported")
        yield from _types(schema, place)
        yield from _containers(schema, place)
        yield from _list_type(schema, place)
        for number, rule in enumerate(schema.get(_RULES) or ()):
            yield from _rule_form(schema, rule, f"{place}.{_RULES}[{number}]")


def _types(schema: Json, place: str) -> Faults:
    kind = schema.get("type", "")
    if kind and kind not in _TYPES:
        yield not_supported(f"{place}.type", kind, _TYPES)
    if kind == "null":
        yield forbidden_field(f"{place}.type", "type cannot be set to null, use nullable as an alternative")
    if schema.get("pattern") and (wrong := regexp.error_of(schema["pattern"])):
        yield invalid_value(f"{place}.pattern", schema["pattern"], f"must be a valid regular expression, but isn't: {wrong}")
    if schema.get(_PRESERVE) is False:
        yield invalid_value(f"{place}.{_PRESERVE}", False, "must be true or undefined")
    if schema.get(_PRESERVE) and schema.get(_INT_OR_STRING):
        yield invalid_value(f"{place}.{_PRESERVE}", True, f"must be false if {_INT_OR_STRING} is true")
    if schema.get(_EMBEDDED):
        if not schema.get("properties") and not schema.get(_PRESERVE):
            yield required(f"{place}.properties", f"must not be empty if {_EMBEDDED} is true without {_PRESERVE}")
        if kind != "object":
            yield invalid_value(f"{place}.type", kind, f"must be object if {_EMBEDDED} is true")


def _containers(schema: Json, place: str) -> Faults:
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden_field(f"{place}.uniqueItems", detail)
    additional = schema.get("additionalProperties")
    if schema.get("properties") and additional is not None and additional is not False:
        detail = "additionalProperties and properties are mutual exclusive"
        yield forbidden_field(f"{place}.additionalProperties", detail)
    if isinstance(schema.get("items"), list):
        yield forbidden_field(f"{place}.items", "items must be a schema object and not an array")
    if schema.get("type") == "array" and schema.get("items") is None:
        yield required(f"{place}.items", "must be specified")
    map_type = schema.get(_MAP_TYPE)
    if map_type and map_type not in ("atomic", "granular"):
        yield not_supported(f"{place}.{_MAP_TYPE}", map_type, ("atomic", "granular"))
    if map_type and schema.get("type") != "object":
        yield invalid_value(f"{place}.type", schema.get("type", ""), f"must be object if {_MAP_TYPE} is specified")


def _list_type(schema: Json, place: str) -> Faults:
    kind, keys = schema.get(_LIST_TYPE), schema.get(_LIST_KEYS) or []
    if keys and kind != "map":
        yield required(f"{place}.{_LIST_TYPE}", f"must be map if {_LIST_KEYS} is non-empty")
    if not kind:
        return
    if kind not in ("atomic", "set", "map"):
        yield not_supported(f"{place}.{_LIST_TYPE}", kind, ("atomic", "set", "map"))
    if schema.get("type") != "array":
        yield invalid_value(f"{place}.type", schema.get("type", ""), f"must be array if {_LIST_TYPE} is specified")
    items = schema.get("items")
    if kind == "map" and not isinstance(items, dict):
        yield required(f"{place}.items", f"must have a schema if {_LIST_TYPE} is map")
    elif kind == "map" and isinstance(items, dict):
        yield from _map_items(items, keys, place)
    elif kind == "set" and isinstance(items, dict):
        yield from _set_items(items, place)


def _map_items(items: Json, keys: list[str], place: str) -> Faults:
    if items.get("type") != "object":
        detail = f"must be object if parent array's {_LIST_TYPE} is map"
        yield invalid_value(f"{place}.items.type", items.get("type", ""), detail)
        return
    if not keys:
        yield required(f"{place}.{_LIST_KEYS}", f"must not be empty if {_LIST_TYPE} is map")
    fields = items.get("properties") or {}
    for key in keys:
        if key not in fields:
            yield invalid_value(f"{place}.{_LIST_KEYS}", keys, "entries must all be names of item properties")
        elif fields[key].get("type") in ("object", "array"):
            detail = f"must be a scalar type if parent array's {_LIST_TYPE} is map"
            yield invalid_value(f"{place}.items.properties[{key}].type", fields[key]["type"], detail)
    if len(set(keys)) < len(keys):
        yield invalid_value(f"{place}.{_LIST_KEYS}", keys, "must not contain duplicate entries")
    why = f"this property is in {_LIST_KEYS}, so it"
    for key in dict.fromkeys(keys):
        if key in fields and key not in (items.get("required") or ()) and fields[key].get("default") is None:
            yield required(f"{place}.items.properties[{key}].default", f"{why} must have a default or be a required property")
        if key in fields and fields[key].get("nullable"):
            yield forbidden_field(f"{place}.items.properties[{key}].nullable", f"{why} cannot be nullable")


def _set_items(items: Json, place: str) -> Faults:
    if items.get("nullable"):
        yield forbidden_field(f"{place}.items.nullable", f"cannot be nullable when {_LIST_TYPE} is set")
    key = {"object": _MAP_TYPE, "array": _LIST_TYPE}.get(items.get("type", ""))
    if key and items.get(key) != "atomic":
        detail = f"must be atomic as item of a list with {_LIST_TYPE}=set"
        yield invalid_value(f"{place}.items.{key}", items.get(key), detail)


def _rule_form(schema: Json, rule: Json, place: str) -> Faults:
    """What can be said of a rule without compiling it."""
    text, message = rule.get("rule", "").strip(), rule.get("message", "")
    if not text:
        yield required(f"{place}.rule", "rule is not specified")
    elif "\n" in text and not message.strip():
        yield required(f"{place}.message", "message must be specified if rule contains line breaks")
    if message and not message.strip():
        yield invalid_value(f"{place}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip():
        yield invalid_value(f"{place}.message", message, "must not contain line breaks")
    if rule.get("messageExpression") and not rule["messageExpression"].strip():
        yield required(f"{place}.messageExpression", "messageExpression must be non-empty if specified")
    if rule.get("reason") and rule["reason"] not in _REASONS:
        yield not_supported(f"{place}.reason", rule["reason"], _REASONS)
    field = rule.get("fieldPath", "")
    if field and not field.strip():
        yield invalid_value(f"{place}.fieldPath", field, "must be non-empty if specified")
    if field and not _names_field(schema, field):
        yield invalid_value(f"{place}.fieldPath", field, "must be a valid path")
    if rule.get("optionalOldSelf") is not None and not syntax.mentions(text, "oldSelf"):
        yield invalid_value(
            f"{place}.optionalOldSelf", rule["optionalOldSelf"], "may not be set if oldSelf is not used in rule"
        )


def _names_field(schema: Json, field: str) -> bool:
    """Whether a path like `.a.b['c']` leads to a field of a schema."""
    if not field.startswith((".", "[")):
        return False
    for step in field.replace("['", ".").replace("']", "").split(".")[1:]:
        if step in (schema.get("properties") or {}):
            schema = schema["properties"][step]
        elif isinstance(schema.get("additionalProperties"), dict):
            schema = schema["additionalProperties"]
        else:
            return False
    return True


def _structure(raw: Json, path: str) -> Faults:
    kind = raw.get("type", "")
    if not kind:
        yield required(f"{path}.type", "must not be empty at the root")
    elif kind != "object":
        yield invalid_value(f"{path}.type", kind, "must be object at the root")
    yield from _root_fields(raw, path)
    for schema, place in places(raw, path):
        if place != path and not _typed(schema):
            what = "array items" if place.endswith(".items") else "object fields"
            yield required(f"{place}.type", f"must not be empty for specified {what}")
        for key in _JUNCTORS:
            for number, branch in enumerate(schema.get(key) or ()):
                yield from _value_checks_only(schema, branch, f"{place}.{key}[{number}]", within=(key, schema.get(key)))
        if isinstance(schema.get("not"), dict):
            yield from _value_checks_only(schema, schema["not"], f"{place}.not", within=("not", None))


def _typed(schema: Json) -> bool:
    return bool(schema.get("type") or schema.get(_INT_OR_STRING) or schema.get(_PRESERVE))


def _value_checks_only(owner: Json, schema: Json, place: str, *, within: tuple[str, Any]) -> Faults:
    """Below anyOf and its like nothing may declare a field's nature; an int-or-string may repeat its two types."""
    excused = bool(owner.get(_INT_OR_STRING)) and within[0] == "anyOf" and within[1] == _INT_OR_STRING_TYPES
    for key, detail in sorted(_FORBIDDEN_BELOW.items()):
        if schema.get(key) not in (None, "", False, []) and not (key == "type" and excused):
            yield forbidden_field(f"{place}.{key}", detail)
    for name, child in (schema.get("properties") or {}).items():
        yield from _value_checks_only({}, child, f"{place}.properties[{name}]", within=("properties", None))
    if isinstance(schema.get("items"), dict):
        yield from _value_checks_only({}, schema["items"], f"{place}.items", within=("items", None))
    for key in _JUNCTORS:
        for number, branch in enumerate(schema.get(key) or ()):
            carried = owner if within[0] == "allOf" else {}
            yield from _value_checks_only(carried, branch, f"{place}.{key}[{number}]", within=(key, schema.get(key)))


def _root_fields(raw: Json, path: str) -> Faults:
    fields = raw.get("properties") or {}
    for name in sorted(RESOURCE_FIELDS & fields.keys()):
        wanted = "object" if name == "metadata" else "string"
        if fields[name].get("type") != wanted:
            yield invalid_value(f"{path}.properties[{name}].type", fields[name].get("type", ""), f"must be {wanted}")
    metadata = fields.get("metadata") or {}
    if set(metadata.get("properties") or ()) - {"name", "generateName"} or metadata.get("additionalProperties"):
        detail = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield forbidden_field(f"{path}.properties[metadata]", detail)
