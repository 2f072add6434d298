"""Schemas of custom and built-in kinds. The tables in data/ are what a kube-apiserver 1.36 answered to the same objects."""

from __future__ import annotations

import json
import tracemalloc
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ullage.standalone.apiserver.schema import CustomSchema, compile_builtin, compile_custom, definitions, formats
from ullage.standalone.apiserver.schema.cel.program import CelError
from ullage.standalone.apiserver.schema.regexp import error_of, matcher

DATA = Path(__file__).parent / "data"
Json = dict[str, Any]


GROUPS: Json = json.loads((DATA / "custom_objects.json").read_text())


@cache
def compiled_group(about: str) -> CustomSchema:
    return compile_custom(GROUPS[about]["schema"])


def recorded_custom() -> list[Any]:
    return [
        pytest.param(about, case, id=f"{about}: {json.dumps(case['object'])[:120]} ({number})")
        for about, group in GROUPS.items()
        for number, case in enumerate(group["cases"])
    ]


def recorded_builtin() -> list[Any]:
    cases = json.loads((DATA / "builtin_objects.json").read_text())
    return [
        pytest.param(case, id=f"{case['object']['kind']}: {case['refused'] or 'accepted'} ({number})")
        for number, case in enumerate(cases)
    ]


def a_schema(rules: list[Json] | None = None, **fields: Json) -> Json:
    spec: Json = {"type": "object", "properties": fields}
    if rules:
        spec["x-kubernetes-validations"] = rules
    return {"type": "object", "properties": {"spec": spec}}


def an_object(**spec: Any) -> Json:
    return {"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}


def write(compiled: CustomSchema, obj: Json, *, strict: bool) -> Json:
    """One write through every step, as the server strings them together."""
    if (refused := compiled.decode(obj)) is not None:
        return {"refused": refused}
    unknown = compiled.prune(obj)
    if unknown and strict:
        return {"refused": f"strict decoding error: {', '.join(f'unknown field {json.dumps(path)}' for path in unknown)}"}
    compiled.default(obj)
    errors = [[error.kind, error.field, error.body] for error in compiled.validate(obj)]
    return {"errors": sorted(errors)} if errors else {"result": {key: obj[key] for key in ("spec", "status") if key in obj}}


@pytest.mark.parametrize(("about", "case"), recorded_custom())
def test_a_custom_object_is_answered_as_recorded(about: str, case: Json) -> None:
    expected: Json = {key: case[key] for key in ("refused", "result") if key in case}
    if "errors" in case:
        expected["errors"] = sorted(case["errors"])
    obj = {"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "w"}, **case["object"]}
    assert write(compiled_group(about), obj, strict=case["strict"]) == expected


@pytest.mark.parametrize("case", recorded_builtin())
def test_a_builtin_object_is_decoded_as_recorded(case: Json) -> None:
    loaded, obj = definitions.load(), case["object"]
    group, _, version = obj["apiVersion"].rpartition("/")
    name = loaded.name_of(group, version, obj["kind"])
    assert name is not None
    schema = compile_builtin(loaded, name)
    found = schema.decode(obj)
    if found is None and (unknown := schema.prune(obj)):
        found = f"strict decoding error: {', '.join(f'unknown field {json.dumps(path)}' for path in unknown)}"
    assert found == case["refused"]


# (the schema when the object was stored, the stricter one of today, the value)
OUTGROWN: dict[str, tuple[Json, Json, Any]] = {
    "maximum": ({"type": "integer"}, {"type": "integer", "maximum": 1}, 5),
    "type": ({"type": "integer"}, {"type": "string"}, 5),
    "enum": ({"type": "string"}, {"type": "string", "enum": ["a"]}, "b"),
    "required": ({"type": "object"}, {"type": "object", "required": ["a"]}, {}),
    "anyOf": ({"type": "object"}, {"type": "object", "anyOf": [{"required": ["a"]}]}, {}),
    "allOf": ({"type": "integer"}, {"type": "integer", "allOf": [{"maximum": 1}]}, 5),
    "not": ({"type": "integer"}, {"type": "integer", "not": {"minimum": 3}}, 5),
    "set": (
        {"type": "array", "items": {"type": "string"}},
        {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        ["a", "a"],
    ),
    "items": (
        {"type": "array", "items": {"type": "integer"}},
        {"type": "array", "items": {"type": "integer", "maximum": 3}},
        [5],
    ),
    "null items": (
        {"type": "array", "items": {"type": "string", "nullable": True}},
        {"type": "array", "items": {"type": "string"}},
        [None],
    ),
    "rule": ({"type": "integer"}, {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 3"}]}, 5),
}


@pytest.mark.parametrize("keyword", OUTGROWN)
def test_an_unchanged_value_that_the_schema_outgrew_is_let_be(keyword: str) -> None:
    before, after, value = OUTGROWN[keyword]
    assert compile_custom(a_schema(field=before)).validate(an_object(field=value)) == []
    strict = compile_custom(a_schema(field=after, other={"type": "integer"}))
    assert strict.validate(an_object(field=value)) != []
    assert strict.validate(an_object(field=value, other=1), an_object(field=value)) == []


KEYED: Json = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
    "items": {
        "type": "object",
        "required": ["k"],
        "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 3}},
    },
}
PLAIN: Json = {"type": "array", "items": {"type": "integer", "maximum": 3}}


@pytest.mark.parametrize(
    ("schema", "old", "new", "fields"),
    [
        pytest.param(PLAIN, [5, 6], [5, 6, 7], ["spec.l[0]", "spec.l[1]", "spec.l[2]"], id="a plain list is judged as a whole"),
        pytest.param(
            KEYED,
            [{"k": "a", "v": 5}, {"k": "b", "v": 6}],
            [{"k": "b", "v": 6}, {"k": "a", "v": 7}],
            ["spec.l[1].v"],
            id="an item with a key is found again wherever it moved",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": {"type": "integer", "maximum": 3}},
            {"a": 5},
            {"a": 5, "b": 6},
            ["spec.l.b"],
            id="the entries of a map are judged one by one",
        ),
        pytest.param({"type": "boolean", "enum": [False]}, 1, True, ["spec.l"], id="one and true are different values"),
    ],
)
def test_only_what_changed_is_judged(schema: Json, old: Any, new: Any, fields: list[str]) -> None:
    errors = compile_custom(a_schema(l=schema)).validate(an_object(l=new), an_object(l=old))
    assert [error.field for error in errors] == fields


def rule(text: str, **more: Any) -> list[Json]:
    return [{"rule": text, **more}]


TRANSITION = rule("self >= oldSelf", message="shrank")


@pytest.mark.parametrize(
    ("schema", "old", "new", "told"),
    [
        pytest.param({"type": "integer", "x-kubernetes-validations": TRANSITION}, 2, 1, ["spec.f"], id="a field that shrinks"),
        pytest.param({"type": "integer", "x-kubernetes-validations": TRANSITION}, None, 1, [], id="a field that is new"),
        pytest.param(
            {
                "type": "integer",
                "x-kubernetes-validations": rule("self < oldSelf.orValue(9)", optionalOldSelf=True),
            },
            None,
            9,
            ["spec.f"],
            id="an optional old value lets a rule judge new fields",
        ),
        pytest.param(
            {"type": "integer", "x-kubernetes-validations": rule("self < oldSelf")},
            5,
            5,
            ["spec.f"],
            id="a rule on the change judges unchanged values too",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": {"type": "integer", "x-kubernetes-validations": TRANSITION}},
            {"x": 3},
            {"x": 2, "y": 1},
            ["spec.f[x]"],
            id="an entry of a map",
        ),
        pytest.param(
            {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": {
                    "type": "object",
                    "properties": {"k": {"type": "string"}, "v": {"type": "integer", "x-kubernetes-validations": TRANSITION}},
                },
            },
            [{"k": "a", "v": 5}, {"k": "b", "v": 1}],
            [{"k": "b", "v": 1}, {"k": "a", "v": 4}, {"k": "c", "v": 0}],
            ["spec.f[1].v"],
            id="an item of a list with keys",
        ),
    ],
)
def test_rules_on_a_change_run_where_old_and_new_correspond(schema: Json, old: Any, new: Any, told: list[str]) -> None:
    before = an_object() if old is None else an_object(f=old)
    assert [error.field for error in compile_custom(a_schema(f=schema)).validate(an_object(f=new), before)] == told


@pytest.mark.parametrize(
    ("fields", "text", "spec", "fits"),
    [
        pytest.param({"n": {"type": "number"}}, "type(self.n) == double", {"n": 1}, True, id="a whole number is a double"),
        pytest.param({"n": {"type": "number"}}, "self.n > 1", {"n": 1.5}, True, id="numbers of two types have one order"),
        pytest.param(
            {"t": {"type": "string", "format": "date-time"}},
            "!has(self.t) || self.t > timestamp('2020-01-01T00:00:00Z')",
            {"t": "2019-12-31T23:59:59Z"},
            False,
            id="a time in an object is a time",
        ),
        pytest.param(
            {"d": {"type": "string", "format": "duration"}},
            "self.d < duration('1h')",
            {"d": "90m"},
            False,
            id="a duration likewise",
        ),
        pytest.param(
            {"l": {"type": "array", "items": {"type": "string", "format": "date-time"}}},
            "self.l.all(t, t > timestamp('2020-01-01T00:00:00Z'))",
            {"l": ["2021-01-01T00:00:00Z"]},
            True,
            id="so are the times in a list",
        ),
        pytest.param(
            {"x": {"type": "string", "nullable": True}},
            "!has(self.x) || self.x == 'a'",
            {"x": None},
            True,
            id="a null field is absent",
        ),
        pytest.param(
            {"o": {"type": "object", "properties": {"x": {"type": "string", "nullable": True}}}},
            "self.o.?x.hasValue()",
            {"o": {"x": None}},
            False,
            id="also further in",
        ),
        pytest.param(
            {"m": {"type": "object", "additionalProperties": {"type": "string", "nullable": True}}},
            "'k' in self.m",
            {"m": {"k": None}},
            True,
            id="a null entry of a map is there",
        ),
        pytest.param(
            {"b": {"type": "string", "format": "byte"}}, "size(self.b) == 1", {"b": "YQ=="}, True, id="base64 is bytes"
        ),
        pytest.param(
            {"namespace": {"type": "string"}, "a-b": {"type": "string"}},
            "self.__namespace__ == self.a__dash__b",
            {"namespace": "x", "a-b": "x"},
            True,
            id="names that CEL cannot write are escaped",
        ),
        pytest.param(
            {"a": {"type": "string"}}, "'self.zzz' != self.a", {"a": "x"}, True, id="a field named in a text is no field"
        ),
        pytest.param(
            {"a": {"type": "string"}}, "self.?a.orValue('x') == 'x'", {}, True, id="a field may be asked for optionally"
        ),
        pytest.param({"a": {"type": "string"}}, "size(self) == 1", {"a": "x"}, True, id="the whole object"),
    ],
)
def test_rules_see_values_typed_by_the_schema(fields: dict[str, Json], text: str, spec: Json, fits: bool) -> None:
    schema = compile_custom(a_schema(rule(text), **fields))
    assert (schema.validate(an_object(**spec)) == []) is fits


def test_rules_at_the_root_see_the_name_and_no_other_metadata() -> None:
    root = {"type": "object", "x-kubernetes-validations": rule("self.metadata.name != 'w'")}
    assert [error.field for error in compile_custom(root).validate(an_object())] == ["<nil>"]
    with pytest.raises(CelError, match="undefined field 'labels'"):
        compile_custom({"type": "object", "x-kubernetes-validations": rule("self.metadata.labels.a == 'w'")})


def test_the_defaults_of_two_objects_share_nothing() -> None:
    schema = compile_custom(a_schema(o={"type": "object", "default": {"l": []}, "x-kubernetes-preserve-unknown-fields": True}))
    first, second = an_object(), an_object()
    schema.default(first)
    schema.default(second)
    first["spec"]["o"]["l"].append(1)
    assert second["spec"]["o"] == {"l": []}


def test_whole_floats_are_stored_as_go_writes_them() -> None:
    obj = an_object(n=1.0, s=1.0)
    compile_custom(a_schema(n={"type": "number"}, s={"type": "string"})).prune(obj)
    assert [type(obj["spec"][key]) for key in ("n", "s")] == [int, float]


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        pytest.param("^a$", "a\n", False, id="the end is the end, even before a line break"),
        pytest.param(r"^\d$", "٣", False, id="digits are ASCII"),
        pytest.param("[$]", "$", True, id="a dollar in a class is a dollar"),
        pytest.param(r"a\$", "a$", True, id="an escaped dollar is a dollar"),
        pytest.param("^[[:alpha:]]+$", "ab", True, id="a POSIX class"),
        pytest.param(r"^\p{Lu}+$", "Ä", True, id="a Unicode property"),
        pytest.param("(?i)^AB$", "ab", True, id="a flag"),
        pytest.param("b", "abc", True, id="a pattern is not anchored"),
    ],
)
def test_patterns_mean_what_re2_means_by_them(pattern: str, text: str, found: bool) -> None:
    assert bool(matcher(pattern)(text)) is found
    assert error_of(pattern) is None


BUILTIN_POD = "io.k8s.api.core.v1.Pod"


def test_a_builtin_object_loses_nulls_and_writes_quantities_canonically() -> None:
    container = {"name": "a", "args": [None], "image": None, "resources": {"limits": {"cpu": "1000m", "memory": 1024}}}
    pod = {"spec": {"containers": [container], "nodeSelector": {"a": None}, "volumes": [{"emptyDir": {"sizeLimit": "1024Mi"}}]}}
    assert compile_builtin(definitions.load(), BUILTIN_POD).prune(pod) == []
    assert pod == {
        "spec": {
            "containers": [{"name": "a", "args": [""], "resources": {"limits": {"cpu": "1", "memory": "1024"}}}],
            "nodeSelector": {"a": ""},
            "volumes": [{"emptyDir": {"sizeLimit": "1Gi"}}],
        }
    }


def test_every_published_definition_compiles() -> None:
    loaded = definitions.load()
    for name in loaded.raw:
        schema = compile_builtin(loaded, name)
        assert schema.prune({"no-such-field": 1}) in ([], ["no-such-field"])


@pytest.mark.parametrize(
    ("time", "told"),
    [
        pytest.param("2020-13-01T00:00:00Z", 'parsing time "2020-13-01T00:00:00Z": month out of range', id="the month"),
        pytest.param("2021-02-29T00:00:00Z", 'parsing time "2021-02-29T00:00:00Z": day out of range', id="the day"),
        pytest.param("2020-02-29T00:00:00Zx", 'parsing time "2020-02-29T00:00:00Zx": extra text: "x"', id="the end"),
        pytest.param("2020-02-29T00:00:00.5+01:00", None, id="nothing wrong"),
    ],
)
def test_times_are_told_apart_as_go_tells_them(time: str, told: str | None) -> None:
    assert compile_builtin(definitions.load(), BUILTIN_POD).decode({"metadata": {"creationTimestamp": time}}) == told


def test_a_long_duration_takes_no_memory() -> None:
    tracemalloc.start()
    try:
        assert formats._GO_DURATION.fullmatch("1h2.5m" * 200_000)
        assert not formats._GO_DURATION.fullmatch("1h2.5m" * 200_000 + "x")
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
