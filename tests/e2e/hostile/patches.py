"""Patches whose result, or whose way to it, is out of proportion to their size."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from .handlers import APPLY, APPS, CORE, CUSTOM, JSON_PATCH, MERGE, STRATEGIC
from .scene import deployment

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Patch:
    """`before` is laid over the object first, as a merge patch: what the patch meets there."""

    id: str
    path: str
    media: str
    make: Callable[[], object]
    before: Callable[[], Json] | None = None
    query: str = ""

    def __str__(self) -> str:
        return self.id

    def body(self) -> bytes:
        found = self.make()
        return found if isinstance(found, bytes) else json.dumps(found).encode()


MAP: Final = f"{CORE}/configmaps/target"
DEPLOYMENT: Final = f"{APPS}/deployments/target"
VESSEL: Final = f"{CUSTOM}/vessels/target"
AS_ATTACK: Final = "?fieldManager=attack&force=true"


def _operation(op: str, path: str, **more: object) -> Json:
    return {"op": op, "path": path, **more}


def _copy(source: str, path: str) -> Json:
    return {"op": "copy", "from": source, "path": path}


def _doubling() -> list[Json]:
    first = _operation("add", "/spec/anything", value={"a": "x" * 1000})
    return [first, *(_copy("/spec/anything", f"/spec/anything/b{number}") for number in range(40))]


def _many_copies() -> list[Json]:
    first = _operation("add", "/spec/anything", value={"a": "x" * 1_000_000, "all": []})
    return [first, *(_copy("/spec/anything/a", "/spec/anything/all/-") for _ in range(9_999))]


def _list_copies() -> list[Json]:
    first = _operation("add", "/spec/anything", value={"a": [0] * 500_000})
    return [first, *(_copy("/spec/anything/a", "/spec/anything/b") for _ in range(9_999))]


def _root_copies() -> list[Json]:
    return [_operation("add", "/spec/anything", value={}), *(_copy("/spec", f"/spec/anything/b{n}") for n in range(30))]


def _inserts() -> list[Json]:
    first = _operation("add", "/spec/anything", value={"a": [0] * 800_000})
    return [first, *(_operation("add", "/spec/anything/a/0", value=0) for _ in range(9_999))]


def _tests() -> list[Json]:
    value = [0] * 100_000
    first = _operation("add", "/spec/anything", value={"a": value, "b": value})
    return [first, *(_operation("test", "/spec/anything/a", value=[0] * 60) for _ in range(9_000))]


def _moves() -> list[Json]:
    first = _operation("add", "/spec/anything", value={"a": {"x": [0] * 300_000}})
    pairs = [("/spec/anything/a", "/spec/anything/b"), ("/spec/anything/b", "/spec/anything/a")]
    return [first, *({"op": "move", "from": pairs[n % 2][0], "path": pairs[n % 2][1]} for n in range(9_999))]


def _deeper() -> list[Json]:
    """Each operation puts the whole into itself: ever deeper, and no operation is long."""
    steps = [_operation("add", "/spec/anything", value={"a": {}})]
    for _ in range(3_000):
        steps.append({"op": "move", "from": "/spec/anything/a", "path": "/spec/b"})
        steps.append(_operation("add", "/spec/anything/a", value={}))
        steps.append({"op": "move", "from": "/spec/b", "path": "/spec/anything/a/a"})
    return steps


def _containers(count: int, *, image: str = "i", start: int = 0) -> list[Json]:
    return [{"name": f"c{number}", "image": image} for number in range(start, start + count)]


def _template(spec: Json) -> Json:
    return {"spec": {"template": {"spec": spec}}}


def _env(count: int) -> list[Json]:
    return [{"name": f"E{number}", "value": "v"} for number in range(count)]


def _nested(depth: int) -> bytes:
    return b'{"spec":{"anything":' + b'{"a":' * depth + b"1" + b"}" * (depth + 2)


def _finalizers(count: int) -> Json:
    return {"metadata": {"finalizers": [f"example.com/f{number}" for number in range(count)]}}


def _applied(path: str, rest: Json) -> Json:
    if path == MAP:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "target"}} | rest
    if path == VESSEL:
        return {"apiVersion": "hostile.example.com/v1", "kind": "Vessel", "metadata": {"name": "target"}} | rest
    return deployment("target") | rest


def _deep_fields(depth: int) -> Json:
    found: Json = {}
    for _ in range(depth):
        found = {"f:a": found}
    return found


def _managed(fields: Json, count: int = 1) -> Json:
    entries = [
        {
            "manager": f"m{number}",
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        }
        for number in range(count)
    ]
    return {"metadata": {"managedFields": entries}}


JSON_PATCHES: Final = (
    Patch("a copy that doubles forty times", VESSEL, JSON_PATCH, _doubling),
    Patch("a copy of the whole into itself", VESSEL, JSON_PATCH, _root_copies),
    Patch("ten thousand copies of a megabyte", VESSEL, JSON_PATCH, _many_copies),
    Patch("ten thousand copies of a long list", VESSEL, JSON_PATCH, _list_copies),
    Patch("ten thousand inserts at the front of a long list", VESSEL, JSON_PATCH, _inserts),
    Patch("nine thousand tests", VESSEL, JSON_PATCH, _tests),
    Patch("ten thousand moves", VESSEL, JSON_PATCH, _moves),
    Patch("moves that go ever deeper", VESSEL, JSON_PATCH, _deeper),
    Patch("three hundred thousand operations", MAP, JSON_PATCH, lambda: b"[" + b"{}," * 700_000 + b"{}]"),
    Patch(
        "an index of a million digits",
        VESSEL,
        JSON_PATCH,
        lambda: [
            _operation("add", "/spec/anything", value=[0]),
            _operation("add", f"/spec/anything/{'9' * 1_000_000}", value=0),
        ],
    ),
    Patch("a path of a million steps", MAP, JSON_PATCH, lambda: [_operation("add", "/a" * 1_000_000, value=0)]),
    Patch("a path of a million tildes", MAP, JSON_PATCH, lambda: [_operation("add", "/" + "~0~1" * 700_000, value=0)]),
    Patch("the root replaced by a list", MAP, JSON_PATCH, lambda: [_operation("replace", "", value=[0] * 1_000_000)]),
    Patch("metadata removed", MAP, JSON_PATCH, lambda: [_operation("remove", "/metadata")]),
    Patch("metadata that is no object", MAP, JSON_PATCH, lambda: [_operation("replace", "/metadata", value=[])]),
    Patch("data that is no object", MAP, JSON_PATCH, lambda: [_operation("replace", "/data", value=[0] * 1_000_000)]),
)

MERGE_PATCHES: Final = (
    Patch("a merge, 500 deep", VESSEL, MERGE, lambda: _nested(500)),
    Patch("a merge, 9,000 deep", VESSEL, MERGE, lambda: _nested(9_000)),
    Patch("a merge into what is deep already", VESSEL, MERGE, lambda: _nested(900), lambda: json.loads(_nested(900))),
    Patch("a million small values", VESSEL, MERGE, lambda: {"spec": {"anything": {"a": [0] * 900_000}}}),
    Patch("a hundred thousand members", VESSEL, MERGE, lambda: {"spec": {"anything": {f"k{n}": {} for n in range(150_000)}}}),
    Patch("a hundred thousand nulls", VESSEL, MERGE, lambda: {"spec": {"anything": {f"k{n}": None for n in range(150_000)}}}),
    Patch("a hundred thousand values of the wrong type", MAP, MERGE, lambda: {"data": {f"k{n}": 1 for n in range(150_000)}}),
    Patch("managedFields, 900 deep", MAP, MERGE, lambda: _managed(_deep_fields(900))),
    Patch("managedFields of ten thousand managers", MAP, MERGE, lambda: _managed({"f:data": {"f:a": {}}}, 10_000)),
    Patch(
        "managedFields with a hundred thousand fields",
        MAP,
        MERGE,
        lambda: _managed({"f:data": {f"f:k{n}": {} for n in range(100_000)}}),
    ),
    Patch(
        "managedFields with keys that are no keys",
        MAP,
        MERGE,
        lambda: _managed({"f:data": {f'k:{{"a":{n}': {} for n in range(50_000)}}),
    ),
)

STRATEGIC_PATCHES: Final = (
    Patch("ten thousand containers over none", DEPLOYMENT, STRATEGIC, lambda: _template({"containers": _containers(10_000)})),
    Patch(
        "ten thousand containers over as many",
        DEPLOYMENT,
        STRATEGIC,
        lambda: _template({"containers": _containers(10_000, image="j")}),
        lambda: _template({"containers": _containers(10_000)}),
    ),
    Patch(
        "twenty thousand variables over as many",
        DEPLOYMENT,
        STRATEGIC,
        lambda: _template({"containers": [{"name": "one", "env": _env(20_000)}]}),
        lambda: _template({"containers": [{"name": "one", "image": "i", "env": _env(20_000)}]}),
    ),
    Patch(
        "an order of ten thousand",
        DEPLOYMENT,
        STRATEGIC,
        lambda: _template(
            {
                "$setElementOrder/containers": [{"name": f"c{n}"} for n in reversed(range(10_000))],
                "containers": _containers(10_000, image="j"),
            }
        ),
        lambda: _template({"containers": _containers(10_000)}),
    ),
    Patch(
        "ten thousand that are to be deleted",
        DEPLOYMENT,
        STRATEGIC,
        lambda: _template({"containers": [{"name": f"c{n}", "$patch": "delete"} for n in range(9_999)]}),
        lambda: _template({"containers": _containers(10_000)}),
    ),
    Patch(
        "twenty thousand finalizers off a list of as many",
        MAP,
        STRATEGIC,
        lambda: {"metadata": {"$deleteFromPrimitiveList/finalizers": _finalizers(20_000)["metadata"]["finalizers"]}},
        lambda: _finalizers(20_000),
    ),
    Patch(
        "twenty thousand finalizers onto a list of others",
        MAP,
        STRATEGIC,
        lambda: {"metadata": {"finalizers": [f"example.com/g{n}" for n in range(20_000)]}},
        lambda: _finalizers(20_000),
    ),
    Patch(
        "a hundred thousand keys to retain",
        MAP,
        STRATEGIC,
        lambda: {"$retainKeys": [f"k{n}" for n in range(100_000)], "data": {f"k{n}": "" for n in range(50_000)}},
    ),
    Patch(
        "a directive that nobody knows, in a big map",
        MAP,
        STRATEGIC,
        lambda: {"data": {"$patch": "nonsense", **{f"k{n}": "" for n in range(150_000)}}},
    ),
    Patch("orders of lists that are not there", MAP, STRATEGIC, lambda: {f"$setElementOrder/l{n}": [] for n in range(80_000)}),
    Patch("a strategic merge, 9,000 deep", MAP, STRATEGIC, lambda: _nested(9_000)),
    Patch("a strategic merge, 900 deep", MAP, STRATEGIC, lambda: _nested(900)),
)

APPLIES: Final = (
    Patch(
        "an apply of a hundred thousand keys",
        MAP,
        APPLY,
        lambda: _applied(MAP, {"data": {f"k{n}": "" for n in range(150_000)}}),
        query=AS_ATTACK,
    ),
    Patch(
        "an apply of thirty thousand rows",
        VESSEL,
        APPLY,
        lambda: _applied(VESSEL, {"spec": {"rows": [{"name": f"r{n}"} for n in range(30_000)]}}),
        query=AS_ATTACK,
    ),
    Patch(
        "an apply of a set of a hundred thousand",
        VESSEL,
        APPLY,
        lambda: _applied(VESSEL, {"spec": {"set": [f"s{n}" for n in range(100_000)]}}),
        query=AS_ATTACK,
    ),
    Patch(
        "an apply of a set with one value very often",
        VESSEL,
        APPLY,
        lambda: _applied(VESSEL, {"spec": {"set": ["s"] * 400_000}}),
        query=AS_ATTACK,
    ),
    Patch(
        "an apply of ten thousand containers",
        DEPLOYMENT,
        APPLY,
        lambda: _applied(
            DEPLOYMENT,
            {
                "spec": deployment("target")["spec"]
                | {"template": {"metadata": {"labels": {"app": "target"}}, "spec": {"containers": _containers(10_000)}}}
            },
        ),
        query=AS_ATTACK,
    ),
    Patch("an apply, 900 deep", VESSEL, APPLY, lambda: _applied(VESSEL, json.loads(_nested(900))), query=AS_ATTACK),
    Patch(
        "an apply over what is deep already",
        VESSEL,
        APPLY,
        lambda: _applied(VESSEL, {"spec": {"anything": {"a": 1}}}),
        lambda: json.loads(_nested(900)),
        query=AS_ATTACK,
    ),
    Patch("an apply with managedFields", MAP, APPLY, lambda: _applied(MAP, _managed({"f:data": {}}, 10_000)), query=AS_ATTACK),
    Patch(
        "an apply by a manager with a long name", MAP, APPLY, lambda: _applied(MAP, {}), query=f"?fieldManager={'m' * 500_000}"
    ),
    Patch(
        "an apply in YAML with aliases",
        MAP,
        APPLY,
        lambda: (
            b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: target}\ndata:\n  a: &a [x,x,x,x,x,x,x,x]\n"
            + b"".join(
                b"  l%d: &l%d [%s]\n" % (n, n, b",".join([b"*a" if n == 0 else b"*l%d" % (n - 1)] * 9)) for n in range(12)
            )
        ),
        query=AS_ATTACK,
    ),
)

ALL: Final = (*JSON_PATCHES, *MERGE_PATCHES, *STRATEGIC_PATCHES, *APPLIES)
