"""Definitions made from types: what a field becomes, what is refused and in which words."""

from __future__ import annotations

import datetime as dt
import enum
import re
import types
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
import pytest
import yaml

from tests.unit.kube.vessel import VESSELS, Vessel
from ullage.kube.crds.definitions import MANAGED_BY, SchemaError, crd_of, is_ours, to_yaml, undocumented
from ullage.kube.crds.schemas import schema_of
from ullage.kube.kinds import AS_SET, OPEN, QUANTITY, Column, Kind, Object, Rule, Value, listed_by

Json = dict[str, Any]
INTS_OR_STRINGS = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}


class Colour(enum.Enum):
    RED = "Red"
    BLUE = "Blue"


class Level(enum.IntEnum):
    LOW = 1


class Inner(Value):
    name: str
    size: int = 0


class Filled(Value):
    depth: int = 3


class Bare(Value):
    size: int = 0


class Shape(Object):
    spec: Inner


def thing(annotation: Any, **default: Any) -> Any:
    body = {"__module__": __name__, "__annotations__": {"it": annotation}}
    return types.new_class(
        "Thing", (Value,), exec_body=lambda names: names.update(body, **({"it": default["default"]} if default else {}))
    )


def field(annotation: Any, **default: Any) -> Json:
    """The schema of one field of the given type."""
    made = thing(annotation, **default)
    found: Json = schema_of(made)["properties"]["it"]
    return found


def refusal(annotation: Any, **default: Any) -> str:
    with pytest.raises(SchemaError) as caught:
        field(annotation, **default)
    return str(caught.value)


INNER = {"type": "object", "properties": {"name": {"type": "string"}, "size": {"type": "integer"}}, "required": ["name"]}


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        pytest.param(str, {"type": "string"}, id="text is a string"),
        pytest.param(bool, {"type": "boolean"}, id="a truth value is a boolean"),
        pytest.param(float, {"type": "number"}, id="a float is a number"),
        pytest.param(int | float, {"type": "number"}, id="either kind of number is a number"),
        pytest.param(bytes, {"type": "string", "format": "byte"}, id="bytes travel in base64"),
        pytest.param(dt.datetime, {"type": "string", "format": "date-time"}, id="a moment is a date-time"),
        pytest.param(str | None, {"type": "string", "nullable": True}, id="what may be None is nullable"),
        pytest.param(int | str, INTS_OR_STRINGS, id="a number or text is int-or-string"),
        pytest.param(int | str | None, {**INTS_OR_STRINGS, "nullable": True}, id="int-or-string may be nullable"),
        pytest.param(int | msgspec.UnsetType, {"type": "integer"}, id="what may be unset is not nullable"),
        pytest.param(Literal["b", "a"], {"type": "string", "enum": ["a", "b"]}, id="literals are an enum, sorted"),
        pytest.param(Literal["a"] | None, {"type": "string", "enum": ["a"]}, id="an enum cannot be nullable"),
        pytest.param(Literal[2, 1], {"type": "integer", "enum": [1, 2]}, id="whole numbers may be an enum"),
        pytest.param(Colour, {"type": "string", "enum": ["Red", "Blue"]}, id="an Enum keeps its order"),
        pytest.param(Level, {"type": "integer", "enum": [1]}, id="an IntEnum is an enum of integers"),
        pytest.param(Inner, INNER, id="a value is inlined, names in camel case"),
        pytest.param(Inner | None, {**INNER, "nullable": True}, id="a value may be nullable"),
        pytest.param(list[int], {"type": "array", "items": {"type": "integer"}}, id="a list has items"),
        pytest.param(tuple[Inner, ...], {"type": "array", "items": INNER}, id="a tuple of any length is a list"),
        pytest.param(
            frozenset[str],
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            id="a Python set is a set",
        ),
        pytest.param(Mapping[str, Inner], {"type": "object", "additionalProperties": INNER}, id="a map has values of one type"),
        pytest.param(
            dict[str, Any], {"type": "object", "x-kubernetes-preserve-unknown-fields": True}, id="a free-form object is kept"
        ),
        pytest.param(Any, {"x-kubernetes-preserve-unknown-fields": True}, id="anything at all is kept"),
        pytest.param(msgspec.Raw, {"x-kubernetes-preserve-unknown-fields": True}, id="raw JSON is kept"),
        pytest.param(Annotated[Inner, OPEN], {**INNER, "x-kubernetes-preserve-unknown-fields": True}, id="an open value"),
        pytest.param(
            Annotated[int, msgspec.Meta(ge=1, lt=9, multiple_of=2)],
            {"type": "integer", "minimum": 1, "maximum": 9, "exclusiveMaximum": True, "multipleOf": 2},
            id="limits of numbers, the exclusive ones as OpenAPI 3.0 has them",
        ),
        pytest.param(
            Annotated[str, msgspec.Meta(min_length=1, max_length=5, pattern="^a", description="a\n  b", examples=["ab"])],
            {"type": "string", "description": "a b", "minLength": 1, "maxLength": 5, "pattern": "^a", "example": "ab"},
            id="limits, text and example of a string",
        ),
        pytest.param(
            Annotated[list[str], msgspec.Meta(max_length=3), AS_SET],
            {"type": "array", "items": {"type": "string"}, "maxItems": 3, "x-kubernetes-list-type": "set"},
            id="marks and limits of a list join",
        ),
        pytest.param(
            Annotated[dict[str, int], msgspec.Meta(max_length=3)],
            {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 3},
            id="limits of a map",
        ),
        pytest.param(
            Annotated[tuple[Inner, ...], listed_by("name")],
            {"type": "array", "items": INNER, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
            id="a list that is merged by name",
        ),
        pytest.param(
            Annotated[Decimal, msgspec.Meta(extra_json_schema={"type": "string"})], {"type": "string"}, id="told what it is"
        ),
    ],
)
def test_a_type_becomes_a_schema(annotation: Any, schema: Json) -> None:
    assert field(annotation) == schema


def test_quantities_are_int_or_string_with_a_pattern() -> None:
    schema = field(Annotated[int | str, QUANTITY])
    assert schema["x-kubernetes-int-or-string"] is True
    fits = re.compile(schema["pattern"])
    assert all(fits.search(text) for text in ("1", "1.5Gi", "-1", "+.5", "1e3", "100m", "1E"))
    assert not any(fits.search(text) for text in ("", "1 Gi", "1gi", "--1", "Gi"))


@pytest.mark.parametrize(
    ("annotation", "default", "schema_default"),
    [
        pytest.param(int, 3, 3, id="a number that says something"),
        pytest.param(bool, True, True, id="true"),
        pytest.param(Colour, Colour.BLUE, "Blue", id="a member of an enum, as its value"),
        pytest.param(tuple[str, ...], ("a",), ["a"], id="a tuple, as a list"),
        pytest.param(Filled, Filled(), {}, id="an object whose fields have defaults: so that they are filled in"),
        pytest.param(Filled, Filled(depth=4), {"depth": 4}, id="an object that differs from its own defaults"),
        pytest.param(Annotated[bool, msgspec.Meta(extra_json_schema={"default": False})], False, False, id="one in a mark"),
    ],
)
def test_a_default_that_says_something_becomes_the_apis(annotation: Any, default: Any, schema_default: Any) -> None:
    assert field(annotation, default=default)["default"] == schema_default


@pytest.mark.parametrize(
    ("annotation", "default"),
    [(int, 0), (bool, False), (str, ""), (str | None, None), (tuple[str, ...], ()), (Bare, Bare()), (Inner | None, None)],
    ids=["zero", "false", "no text", "None", "no items", "an object that fills in nothing", "no object"],
)
def test_a_default_that_says_nothing_is_no_default(annotation: Any, default: Any) -> None:
    assert "default" not in field(annotation, default=default)


class Node(Value):
    children: tuple[Node, ...] = ()


class Tagged(Value, tag=True):
    it: int = 0


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        pytest.param(int | bool, "Thing.it: a union may be `T | None`, `int | str` or `int | float`", id="an odd union"),
        pytest.param(dict[int, str], "Thing.it: the keys of a map are strings", id="a map by number"),
        pytest.param(list[dict[int, str]], "Thing.it[]: the keys of a map are strings", id="inside a list"),
        pytest.param(Node, "Node.children[]: Node contains itself, and a structural schema must end", id="a tree"),
        pytest.param(Tagged, "Thing.it: Tagged is array-like or tagged", id="a tagged value"),
        pytest.param(Literal["a", 1], "Thing.it: the values of an enum are all strings or all whole", id="a mixed enum"),
        pytest.param(tuple[int, str], "Thing.it: TupleType has no counterpart in a CRD", id="a pair"),
        pytest.param(
            Fraction := type("Fraction", (), {}), "Thing.it: Fraction has no counterpart in a CRD", id="a foreign type"
        ),
        pytest.param(Annotated[str, msgspec.Meta(pattern="a(?=b)")], "Thing.it: the pattern uses '(?='", id="a look-ahead"),
        pytest.param(Annotated[str, AS_SET], "Thing.it: x-kubernetes-list-type is for lists", id="a mark on a string"),
        pytest.param(Annotated[list[Inner], AS_SET], "Thing.it: a list that is a set holds strings", id="a set of objects"),
        pytest.param(
            Annotated[list[Inner], listed_by("nme")], "Thing.it: the list key 'nme' is no plain field", id="a key not there"
        ),
        pytest.param(
            Annotated[list[Inner], listed_by("size")], "Thing.it: the list key 'size' must be required", id="a key left out"
        ),
    ],
)
def test_what_no_crd_can_say_is_refused_with_type_and_field(annotation: Any, message: str) -> None:
    assert message in refusal(annotation)


def test_a_default_from_a_factory_is_refused() -> None:
    made = thing(list[str], default=msgspec.field(default_factory=lambda: ["a"]))
    with pytest.raises(SchemaError, match=r"Thing\.it: a default must be a value"):
        schema_of(made)


# --- whole definitions -----------------------------------------------------------------------------------------------


def shapes(**changes: Any) -> Kind[Any]:
    given: Json = {
        "group": "x.example.com",
        "version": "v1",
        "kind": "Shape",
        "plural": "shapes",
        "type": Shape,
        "status": False,
    }
    return Kind(**(given | changes))


def version(crd: Json, number: int = 0) -> Json:
    found: Json = crd["spec"]["versions"][number]
    return found


def root(crd: Json, number: int = 0) -> Json:
    found: Json = version(crd, number)["schema"]["openAPIV3Schema"]
    return found


def test_names_scope_and_mark_of_a_definition() -> None:
    crd = crd_of(shapes(short_names=("sh",), categories=("all",), namespaced=False))
    assert crd["metadata"] == {"name": "shapes.x.example.com", "labels": {MANAGED_BY: "ullage"}}
    assert crd["spec"]["scope"] == "Cluster"
    assert crd["spec"]["names"] == {
        "kind": "Shape",
        "listKind": "ShapeList",
        "plural": "shapes",
        "singular": "shape",
        "shortNames": ["sh"],
        "categories": ["all"],
    }
    assert is_ours(crd)
    assert not is_ours({"metadata": {"name": "x"}})
    assert not is_ours({"metadata": {"labels": {MANAGED_BY: "Helm"}}})


@pytest.mark.parametrize(
    ("group", "marked"),
    [
        pytest.param("snapshot.storage.k8s.io", True, id="under k8s.io"),
        pytest.param("x.kubernetes.io", True, id="under kubernetes.io"),
        pytest.param("harvesterhci.io", False, id="elsewhere"),
        pytest.param("notk8s.io", False, id="a name that only ends alike"),
    ],
)
def test_groups_of_kubernetes_say_whether_they_were_approved(group: str, marked: bool) -> None:
    annotations = crd_of(shapes(group=group))["metadata"].get("annotations", {})
    assert ("api-approved.kubernetes.io" in annotations) == marked


def test_metadata_is_left_to_the_api_server() -> None:
    found = root(crd_of(shapes()))["properties"]
    assert list(found) == ["apiVersion", "kind", "metadata", "spec"]
    assert found["metadata"] == {"type": "object"}


def test_versions_may_be_unserved_and_deprecated() -> None:
    crd = crd_of(
        shapes(version="v2"),
        others=(shapes(), shapes(version="v1alpha1")),
        unserved=("v1alpha1",),
        deprecated={"v1": "x.example.com/v1 Shape is deprecated; use v2"},
    )
    flags = [(one["name"], one["served"], one["storage"], one.get("deprecated", False)) for one in crd["spec"]["versions"]]
    assert flags == [("v2", True, True, False), ("v1", True, False, True), ("v1alpha1", False, False, False)]
    assert version(crd, 1)["deprecationWarning"].endswith("use v2")


def test_a_version_of_another_kind_is_refused() -> None:
    with pytest.raises(SchemaError, match="Other/v2: not a version of shapes"):
        crd_of(shapes(), others=(shapes(version="v2", kind="Other"),))


def test_a_kind_that_is_known_in_part_keeps_what_it_does_not_name() -> None:
    crd = crd_of(shapes(whole=False))
    assert root(crd)["x-kubernetes-preserve-unknown-fields"] is True
    assert root(crd)["properties"]["spec"]["x-kubernetes-preserve-unknown-fields"] is True
    assert "x-kubernetes-preserve-unknown-fields" not in root(crd)["properties"]["metadata"]


def test_a_kind_that_is_known_in_part_drops_other_fields_where_its_own_definition_does() -> None:
    crd = crd_of(shapes(whole=False, prunes=True))
    assert "x-kubernetes-preserve-unknown-fields" not in root(crd)
    assert "x-kubernetes-preserve-unknown-fields" not in root(crd)["properties"]["spec"]


def test_rules_stand_at_their_places() -> None:
    crd = crd_of(VESSELS)
    spec = root(crd)["properties"]["spec"]
    assert [rule["rule"] for rule in root(crd)["x-kubernetes-validations"]] == ["self.metadata.name.size() <= 40"]
    assert spec["x-kubernetes-validations"][0]["fieldPath"] == ".liquid"
    assert spec["properties"]["source"]["x-kubernetes-validations"][0]["reason"] == "FieldValueForbidden"
    assert len(spec["properties"]["valves"]["items"]["x-kubernetes-validations"]) == 1


class Twin(Object):
    one: Inner
    other: Inner


def test_a_rule_on_one_use_of_a_type_is_not_on_the_others() -> None:
    found = root(crd_of(shapes(type=Twin, rules=(Rule("self.size > 0", "no size", path="one"),))))["properties"]
    assert "x-kubernetes-validations" in found["one"]
    assert "x-kubernetes-validations" not in found["other"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param(
            {"rules": (Rule("true", "m", path="spec.nme"),)}, "Shape.spec.nme: no such field for the rule 'true'", id="a rule"
        ),
        pytest.param(
            {"columns": (Column("A", "spec.name"),)}, "column 'A': the path begins with a dot", id="a path without dot"
        ),
        pytest.param(
            {"columns": (Column("A", ".spec.nme"),)}, "column 'A': there is no field .spec.nme", id="a field not there"
        ),
        pytest.param({"columns": (Column("A", ".spec.name", type="int"),)}, "not 'int'", id="a column of no known type"),
        pytest.param({"status": True}, "Shape: shapes.x.example.com has the status subresource", id="a status without a field"),
    ],
)
def test_what_does_not_fit_the_type_is_refused(changes: Json, message: str) -> None:
    with pytest.raises(SchemaError, match=re.escape(message)):
        crd_of(shapes(**changes))


def test_docs_come_from_under_the_field_then_from_its_type() -> None:
    spec = root(crd_of(VESSELS))["properties"]["spec"]
    assert spec["description"] == "What the vessel should be."
    assert spec["properties"]["source"]["description"].startswith("Where the content came from")
    assert spec["properties"]["cooling"]["description"] == "How it is kept cool."
    assert spec["properties"]["valves"]["description"] == (
        "The ways in and out.\n\nOrder does not matter:\n- inlets come from above,\n- outlets from below."
    )


def test_fields_without_a_word_are_named() -> None:
    assert undocumented(crd_of(VESSELS)) == []
    assert undocumented(crd_of(shapes())) == ["v1: (the kind itself)", "v1: spec", "v1: spec.name", "v1: spec.size"]


# --- text ------------------------------------------------------------------------------------------------------------


def test_the_text_reads_back_as_the_definition_and_is_always_the_same() -> None:
    text = to_yaml(crd_of(VESSELS))
    assert yaml.safe_load(text) == crd_of(VESSELS)
    assert text == to_yaml(crd_of(VESSELS))
    assert "&" not in re.sub(r"'.*'", "", text), "anchors are not for people"


@pytest.mark.parametrize("word", ["y", "No", "on", "1e3", "0x1F", "1_000", "2026-01-01", ".inf", "~", "", "null", "1:30", "+1"])
def test_words_that_other_readers_take_for_something_else_are_quoted(word: str) -> None:
    assert to_yaml({"it": word}) == f"it: '{word}'\n"


def test_several_objects_are_several_documents() -> None:
    assert list(yaml.safe_load_all(to_yaml({"a": 1}, {"b": 2}))) == [{"a": 1}, {"b": 2}]


def test_an_object_that_is_sent_without_its_defaults_comes_back_the_same() -> None:
    """What the API server fills in is what Python fills in."""
    sent = msgspec.json.decode(b'{"spec":{"capacity":"2k","valves":[{"name":"top"}]}}', type=Vessel)
    filled = {
        "capacity": "2k",
        "liquid": "Water",
        "cooling": {"mode": "Weak", "tolerance": 0.5},
        "valves": [{"name": "top", "diameter": 50}],
    }
    assert msgspec.convert({"spec": filled}, Vessel) == sent
