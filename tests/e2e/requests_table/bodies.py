"""Bodies as text: what YAML becomes, what is too much of it, and the order in which a strict decoder complains."""

# ruff: noqa: E501 - messages stand on one line, as they come over the wire

from __future__ import annotations

from .case import ACCOUNTS, APPLY, CONFIGMAPS, GAUGES, MERGE_PATCH, PODS, TANKS, Case, post

YAML = {"Content-Type": "application/yaml"}
JSON = {"Content-Type": "application/json"}
_AUTHORIZATION = "/apis/authorization.k8s.io/v1"
_TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
_TANK = "apiVersion: e2e.example.com/v1\nkind: Tank\nmetadata: {name: yaml-{ns}}\n"
_UNREAD = "the object provided is unrecognized (must be of type Tank): "
_REVIEWS = f"{_AUTHORIZATION}/selfsubjectaccessreviews"
_LAUGHS = "\n".join(["l0: &l0 lol", *(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 10))])


def _read(id: str, text: str, value: object) -> Case:
    return Case(id, "POST", f"{TANKS}?dryRun=All", _TANK + text, headers=YAML, expect=(201, ""), has={"x": value})


def _refused(id: str, text: str, message: str) -> Case:
    return Case(id, "POST", TANKS, _TANK + text, headers=YAML, expect=(400, "BadRequest"), message=f"{_UNREAD}{message} (…")


def _wrong(id: str, path: str, body: str, kind: str) -> Case:
    lead = f'{kind} in version "v1" cannot be handled as a {kind}: json: cannot unmarshal … into Go struct field {kind}'
    return Case(id, "POST", path, body, headers=JSON, expect=(400, "BadRequest"), message=f"{lead}…")


CASES = (
    _read(
        "YAML: numbers and booleans as keys become strings", "x: {1: a, 1.5: b, yes: c}", {"1": "a", "1.5": "b", "true": "c"}
    ),
    _read("YAML: a date stays a string", "x: 2001-01-01", "2001-01-01"),
    _read("YAML: binary is decoded", "x: !!binary aGVsbG8=", "hello"),
    _read("YAML: words of version 1.1 are booleans", "x: [yes, n, on, OFF]", [True, False, True, False]),
    _read("YAML: octal, hexadecimal, binary, underscores", "x: [010, 0o10, 0x1F, 0b101, 1_000]", [8, 8, 31, 5, 1000]),
    _read("YAML: a float that is whole is an integer", "x: [1.0, 1e3, 5.]", [1, 1000, 5]),
    _read("YAML: a number beyond floats is a string", "x: 1e400", "1e400"),
    _read("YAML: a merge key", "b: &b {a: 1, c: 1}\nx: {<<: *b, c: 2}", {"a": 1, "c": 2}),
    _read("YAML: of several documents the first counts", "x: 1\n---\nx: 2\n", 1),
    _read("YAML: an unknown tag makes a string", "x: !custom 5", "5"),
    _refused("YAML: infinity", "x: .inf", "json: unsupported value: +Inf"),
    _refused("YAML: a number that is none", "x: .nan", "json: unsupported value: NaN"),
    _refused("YAML: null as a key", "x: {null: a}", 'unsupported map key of type: %!s(<nil>), key: <nil>, value: "a"'),
    _refused("YAML: a list as a key", "x: {[1]: a}", "yaml: invalid map key: []interface {}{1}"),
    _refused("YAML: a tag that lies", "x: !!int a", "yaml: cannot decode !!str `a` as a !!int"),
    _refused("YAML: binary that is none", "x: !!binary '***'", "yaml: !!binary value contains invalid base64 data"),
    _refused("YAML: an alias of nothing", "x: *nope", "yaml: unknown anchor 'nope' referenced"),
    _refused("YAML: a billion laughs", _LAUGHS, "yaml: document contains excessive aliasing"),
    Case(
        "YAML: labels with a number as key",
        "POST",
        f"{CONFIGMAPS}?dryRun=All",
        "metadata:\n  name: numbered\n  labels: {1: a}\n",
        headers=YAML,
        expect=(201, ""),
        has={"metadata.labels.1": "a"},
    ),
    Case(
        "YAML: a billion laughs in a review that anybody may ask for",
        "POST",
        _REVIEWS,
        _LAUGHS,
        headers=YAML,
        expect=(400, "BadRequest"),
        message="the object provided is unrecognized (must be of type SelfSubjectAccessReview): yaml: document contains excessive aliasing (…",
    ),
    Case(
        "an apply of a billion laughs",
        "PATCH",
        f"{TANKS}/yaml-{{ns}}?fieldManager=m",
        _TANK + _LAUGHS,
        headers=APPLY,
        expect=(400, "BadRequest"),
        message="error decoding YAML: error converting YAML to JSON: yaml: document contains excessive aliasing",
    ),
    Case(
        "an apply of infinity",
        "PATCH",
        f"{TANKS}/yaml-{{ns}}?fieldManager=m",
        _TANK + "x: -.inf",
        headers=APPLY,
        expect=(400, "BadRequest"),
        message="error decoding YAML: error converting YAML to JSON: json: unsupported value: -Inf",
    ),
    Case(
        "Strict: faults of a built-in kind as they stand in the text",
        "POST",
        f"{CONFIGMAPS}?fieldValidation=Strict",
        '{"metadata":{"name":"a","foo":1},"data":{"k":"1","k":"2"},"bar":1,"data":{},"baz":2}',
        expect=(400, "BadRequest"),
        message='ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "metadata.foo", duplicate field "data.k", unknown field "bar", duplicate field "data", unknown field "baz"',
    ),
    Case(
        "Strict: faults of a custom kind, repeated keys first",
        "POST",
        f"{GAUGES}?fieldValidation=Strict",
        '{"apiVersion":"e2e.example.com/v1","kind":"Gauge","zork":1,"spec":{"capacity":1,"nope":1,"nope":2,"capacity":2},"metadata":{"name":"a","foo":1,"name":"b"}}',
        expect=(400, "BadRequest"),
        message='Gauge in version "v1" cannot be handled as a Gauge: strict decoding error: duplicate field "spec.nope", duplicate field "spec.capacity", duplicate field "metadata.name", unknown field "metadata.foo", unknown field "spec.nope", unknown field "zork"',
    ),
    Case(
        "Strict: repeated keys of a kind that preserves what it does not know",
        "POST",
        f"{TANKS}?fieldValidation=Strict",
        '{"apiVersion":"e2e.example.com/v1","kind":"Tank","metadata":{"name":"a","foo":1},"x":{"a":1,"a":2},"x":3,"y":[{"b":1,"b":1}]}',
        expect=(400, "BadRequest"),
        message='Tank in version "v1" cannot be handled as a Tank: strict decoding error: duplicate field "x.a", duplicate field "x", duplicate field "y[0].b", unknown field "metadata.foo"',
    ),
    Case(
        "Strict: repeated keys in YAML",
        "POST",
        f"{CONFIGMAPS}?fieldValidation=Strict",
        "metadata:\n  name: a\n  name: b\n  foo: 1\ndata: {k: '1', k: '2'}\nbar: 1\n",
        headers=YAML,
        expect=(400, "BadRequest"),
        message='ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: yaml: unmarshal errors:\n  line 3: key "name" already set in map\n  line 5: key "k" already set in map, unknown field "bar", unknown field "metadata.foo"',
    ),
    Case(
        "repeated keys of an apply are warned of",
        "PATCH",
        f"{CONFIGMAPS}/twice?fieldManager=m",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: twice\ndata: {k: '1', k: '2'}\n",
        headers=APPLY,
        expect=(201, ""),
        warnings=('line 5: key "k" already set in map',),
    ),
    Case(
        "Strict: repeated keys of an apply",
        "PATCH",
        f"{CONFIGMAPS}/twice?fieldManager=m&fieldValidation=Strict",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: twice\ndata: {k: '1', k: '2'}\n",
        headers=APPLY,
        expect=(400, "BadRequest"),
        message='error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line 5: key "k" already set in map',
    ),
    Case(
        "repeated keys of a merge patch are warned of",
        "PATCH",
        f"{CONFIGMAPS}/patched",
        '{"metadata":{"foo":1},"data":{"k":"1","k":"2"},"bar":1}',
        headers=MERGE_PATCH,
        warnings=('duplicate field "data.k"', 'unknown field "bar"', 'unknown field "metadata.foo"'),
        setup=(post(CONFIGMAPS, {"metadata": {"name": "patched"}}),),
    ),
    _wrong("a review of a list", f"{_AUTHORIZATION}/selfsubjectaccessreviews", '{"spec":[1]}', "SelfSubjectAccessReview"),
    _wrong(
        "a review of a user that is a list",
        f"{_AUTHORIZATION}/subjectaccessreviews",
        '{"spec":{"user":["a"]}}',
        "SubjectAccessReview",
    ),
    _wrong("a review of a token that is a number", _TOKENS, '{"spec":{"token":5}}', "TokenReview"),
    _wrong("a review of audiences that are a number", _TOKENS, '{"spec":{"audiences":5}}', "TokenReview"),
    _wrong(
        "a token for a time that is a word", f"{ACCOUNTS}/default/token", '{"spec":{"expirationSeconds":"x"}}', "TokenRequest"
    ),
    _wrong("a token with metadata that are a number", f"{ACCOUNTS}/default/token", '{"metadata":3}', "TokenRequest"),
    _wrong("an eviction with options that are a number", f"{PODS}/p/eviction", '{"deleteOptions":5}', "Eviction"),
    _wrong("a binding to a number", f"{PODS}/p/binding", '{"target":5}', "Binding"),
    *(
        Case(
            f"delete options whose {name} is of the wrong type",
            "DELETE",
            f"{CONFIGMAPS}/a",
            f'{{"{name}":{value}}}',
            headers={"Content-Type": "application/json"},
            expect=(400, "BadRequest"),
            message=f"json: cannot unmarshal … into Go struct field DeleteOptions.{name} of type …",
        )
        for name, value in (("preconditions", "5"), ("dryRun", "5"), ("gracePeriodSeconds", '"x"'), ("orphanDependents", '"x"'))
    ),
    Case(
        "a kind that is a list",
        "DELETE",
        f"{CONFIGMAPS}/a",
        '{"kind":[]}',
        headers={"Content-Type": "application/json"},
        expect=(400, "BadRequest"),
        message="couldn't get version/kind; json parse error: json: cannot unmarshal array into Go struct field .kind of type string",
    ),
)
