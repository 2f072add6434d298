"""Writes `apiserver/codec/protobuf/fields.txt`: the numbers under which the fields of the built-in kinds travel in protobuf.

Run it when the embedded server moves to another Kubernetes version, with the directory that holds that version's Go modules:

    python tools/protobuf_table.py "$(go env GOMODCACHE)/k8s.io" v0.36.3

Numbers and wire types are those of the modules' `generated.proto`. What JSON makes of a field (its name, whether it stands in
the object that holds it, whether its zero value is left out) is not said there, but in the tags of the Go struct of that name.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ullage.standalone.apiserver.codec.protobuf.fields import OPTIONS, TABLE
from ullage.standalone.apiserver.kinds.builtin import SUBRESOURCES, rows

# Go package, relative to the module that holds it, to the apiVersion of its kinds.
_PACKAGE = re.compile(r"k8s\.io\.(?:api|apimachinery\.pkg\.apis|[a-z_]+\.pkg\.apis)\.([a-z]+)\.(v\d+)")
_API_VERSIONS = {
    "core/v1": "v1",
    "meta/v1": "meta.k8s.io/v1",
    "rbac/v1": "rbac.authorization.k8s.io/v1",
    "flowcontrol/v1": "flowcontrol.apiserver.k8s.io/v1",
}
_PLAIN_GROUPS = frozenset({"apps", "autoscaling", "batch", "policy"})

# Messages whose JSON is not an object of their fields: the decoder knows each by this word.
_SPECIAL = {
    "k8s.io.apimachinery.pkg.apis.meta.v1.Time": "time",
    "k8s.io.apimachinery.pkg.apis.meta.v1.MicroTime": "microTime",
    "k8s.io.apimachinery.pkg.apis.meta.v1.FieldsV1": "json",
    "k8s.io.apimachinery.pkg.runtime.RawExtension": "json",
    "k8s.io.apimachinery.pkg.api.resource.Quantity": "quantity",
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": "intOrString",
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSON": "json",
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray": "schemaOrArray",
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool": "schemaOrBool",
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray": "schemaOrStrings",
}
_SCHEMA = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_SCALARS = frozenset({"string", "int32", "int64", "bool", "bytes", "double"})

_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.M | re.S)
_FIELD = re.compile(r"^  (optional|repeated|map<string, ([\w.]+)>) ?([\w.]*) (\w+) = (\d+);", re.M)
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.M | re.S)
_MEMBER = re.compile(r"^\t(?:\w+[ \t]+)?([\w.*\[\]]+)[ \t]+`([^`]+)`", re.M)
_JSON_TAG = re.compile(r'json:"([^"]*)"')
_NUMBER_TAG = re.compile(r'protobuf:"\w+,(\d+),')


@dataclass(frozen=True, slots=True)
class Member:
    """How a field of a Go struct appears in JSON."""

    name: str
    inline: bool
    kept: bool  # a zero value on the wire is a zero value in JSON
    omits_empty_message: bool


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message. `shape` is "", "[]" (repeated) or "{}" (map by name)."""

    number: int
    name: str
    shape: str
    type: str  # a scalar, or a message's full name


class Sources:
    """The messages and structs of all the modules."""

    def __init__(self, root: Path, version: str) -> None:
        self.messages: dict[str, list[Field]] = {}
        self.members: dict[str, dict[int, Member]] = {}
        for module in ("api", "apimachinery", "apiextensions-apiserver", "kube-aggregator"):
            for proto in sorted((root / f"{module}@{version}").rglob("generated.proto")):
                self._read(proto)

    def _read(self, proto: Path) -> None:
        text = proto.read_text()
        package = text.partition("\npackage ")[2].partition(";")[0]
        for name, body in _MESSAGE.findall(text):
            self.messages[f"{package}.{name}"] = list(_fields(package, body))
        for path in sorted(proto.parent.glob("*.go")):
            if "generated" in path.name or path.name.endswith("_test.go"):
                continue
            for name, body in _STRUCT.findall(path.read_text()):
                self.members[f"{package}.{name}"] = dict(_members(body))


def _fields(package: str, body: str) -> Iterator[Field]:
    for label, mapped, single, name, number in _FIELD.findall(body):
        shape = "{}" if mapped else "[]" if label == "repeated" else ""
        type_ = mapped or single
        if type_ not in _SCALARS:
            type_ = type_.removeprefix(".") if "." in type_ else f"{package}.{type_}"
        yield Field(int(number), name, shape, type_)


def _members(body: str) -> Iterator[tuple[int, Member]]:
    for type_, tags in _MEMBER.findall(body):
        number, json = _NUMBER_TAG.search(tags), _JSON_TAG.search(tags)
        if number is None or json is None:
            continue
        name, *flags = json[1].split(",")
        yield (
            int(number[1]),
            Member(
                name=name,
                inline="inline" in flags,
                kept=type_.startswith("*") or not {"omitempty", "omitzero"} & set(flags),
                omits_empty_message="omitzero" in flags,
            ),
        )


def short_name(full: str) -> tuple[str, str]:
    """`k8s.io.api.core.v1.Pod` to (`v1`, `Pod`)."""
    package, _, name = full.rpartition(".")
    found = _PACKAGE.fullmatch(package)
    if found is None:
        raise LookupError(f"{full}: a package without kinds")
    where = f"{found[1]}/{found[2]}"
    suffix = "" if found[1] in _PLAIN_GROUPS else ".k8s.io"
    return _API_VERSIONS.get(where, f"{found[1]}{suffix}/{found[2]}"), name


def roots() -> set[str]:
    """The kinds that may be the body of a request."""
    found = {f"{row.group}/{row.version}.{row.kind}".removeprefix("/") for row in rows()}
    found |= {f"{sub.group}/{sub.version}.{sub.kind}" for sub in SUBRESOURCES.values() if sub.version}
    return found | {f"meta.k8s.io/v1.{kind}" for kind in OPTIONS}


class Table:
    """What the roots reach, as text."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._names = {".".join(short_name(full)): full for full in sources.messages if _has_kinds(full)}

    def render(self) -> str:
        kinds = roots()
        pending, seen = sorted(kinds), set(kinds)
        blocks: dict[str, str] = {}
        while pending:
            short = pending.pop()
            full = self._names[short]
            lines = [self._line(full, field) for field in self._sources.messages[full]]
            blocks[short] = "\n".join([f"{'kind' if short in kinds else 'part'} {short}", *lines])
            for reached in self._reached(full):
                if reached not in seen:
                    seen.add(reached)
                    pending.append(reached)
        return "\n\n".join(blocks[short] for short in sorted(blocks)) + "\n"

    def _reached(self, full: str) -> Iterator[str]:
        for field in self._sources.messages[full]:
            type_ = _SCHEMA if _SPECIAL.get(field.type, "").startswith("schema") else field.type
            if type_ not in _SPECIAL and type_ not in _SCALARS and self._items(type_) is None:
                yield ".".join(short_name(type_))

    def _items(self, full: str) -> Field | None:
        """The one field of a message that only stands for a named list in Go; JSON has the bare list."""
        fields = self._sources.messages[full]
        return fields[0] if full not in self._sources.members and [f.name for f in fields] == ["items"] else None

    def _line(self, full: str, field: Field) -> str:
        member = self._sources.members[full][field.number]
        if member.inline:
            return f"{field.number} ^{self._word(full, field.type)}"
        is_message = field.type not in _SCALARS
        if is_message and member.omits_empty_message and field.type not in _SPECIAL:
            raise NotImplementedError(f"{full}.{member.name}: the decoder does not know which messages are all zero")
        kept = bool(field.shape) or member.kept or (is_message and not member.omits_empty_message)
        return f"{field.number} {member.name} {'' if kept else '?'}{field.shape}{self._word(full, field.type)}"

    def _word(self, holder: str, type_: str) -> str:
        if type_ in _SCALARS or type_ in _SPECIAL:
            return _SPECIAL.get(type_, type_)
        items = self._items(type_)
        if items is not None:
            return f"(){self._word(holder, items.type)}"
        own, (version, name) = short_name(holder)[0], short_name(type_)
        return name if version == own else f"{version}.{name}"


def _has_kinds(full: str) -> bool:
    return _PACKAGE.fullmatch(full.rpartition(".")[0]) is not None


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    TABLE.write_text(Table(Sources(Path(arguments[0]), arguments[1])).render())
    print(f"wrote {TABLE.name}: {TABLE.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
