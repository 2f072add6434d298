"""The schema of a custom kind: a CustomResourceDefinition's `openAPIV3Schema`, compiled once and asked on every write."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.schema import definitions, lists, ratchet, rules
from ullage.standalone.apiserver.schema.builtin import BuiltinSchema, compile_builtin
from ullage.standalone.apiserver.schema.check import compile_check
from ullage.standalone.apiserver.schema.faults import Fault, Faults, TooManyFaults
from ullage.standalone.apiserver.schema.node import Node, build, fill
from ullage.standalone.apiserver.schema.prune import prune, spell
from ullage.standalone.apiserver.status import FieldError

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

# With one of these the types that rules count on are not given, so no rule is run.
BLOCKING = frozenset(
    ("FieldValueTypeInvalid", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueNotSupported")
)
_NOT_CHECKED = FieldError(
    "FieldValueInvalid",
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


class CustomSchema:
    """Implements `Schema` (see resources.py), plus `decode`."""

    def __init__(self, node: Node, *, with_rules: bool = True) -> None:
        self.node = node
        self._check = compile_check(node.raw)
        self._lists = lists.compile_lists(node)
        self._embedded = lists.compile_embedded(node)
        self._rules = rules.compile_rules(node) if with_rules else None

    def default(self, obj: Json) -> None:
        fill(self.node, obj)

    def prune(self, obj: Json) -> list[str]:
        unknown: list[str] = []
        metadata = _metadata().prune if self._embedded is not None else None
        prune(self.node, obj, None, unknown, metadata=metadata, root=True)
        return sorted(unknown)

    def unknown_in(self, value: Any) -> list[str]:
        """The same for a value that is no whole object (a default)."""
        unknown: list[str] = []
        if isinstance(value, (dict, list)):
            prune(self.node, value, None, unknown, metadata=None)
        return unknown

    def validate(self, obj: Any, old: Json | None = None, *, blocked: bool = False) -> list[FieldError]:
        faults: list[Fault] = Faults()
        try:
            self._check(obj, None, faults)
            if self._embedded is not None:
                self._embedded(obj, None, faults)
        except TooManyFaults:  # nothing is forgiven where not everything was looked at
            return [fault.error for fault in faults]
        if faults and old is not None:
            faults = ratchet.still_wrong(self.node, obj, old=old, faults=faults)
        faults += self._duplicates(obj, old)
        if self._rules is None:
            return [fault.error for fault in faults]
        if blocked or any(fault.error.kind in BLOCKING for fault in faults):
            return [*(fault.error for fault in faults), _NOT_CHECKED]
        return [fault.error for fault in faults + self._broken_rules(obj, old)]

    def decode(self, obj: Json) -> str | None:
        """What is wrong with the shape of embedded objects; like any decoding error it ends the request at once (400)."""
        if self._embedded is None:
            return None
        for place, embedded in lists.embedded_objects(self.node, obj):
            for key in ("apiVersion", "kind"):
                if key in embedded and type(embedded[key]) is not str:
                    return f"{spell((place, key))}: Invalid value: {_shown(embedded[key])}: must be a string"
            metadata = embedded.get("metadata")
            if metadata is not None and (wrong := _metadata().decode(metadata)):
                return f"{spell((place, 'metadata'))}: Invalid value: {_shown(metadata)}: {wrong}"
        return None

    def _duplicates(self, obj: Json, old: Json | None) -> list[Fault]:
        """Duplicates in lists that forbid them, unless the old object had some: then nobody is made to mend them."""
        if self._lists is None:
            return []
        faults, before = Faults(), Faults()
        with suppress(TooManyFaults):
            self._lists(obj, None, faults)
        if faults and old is not None:
            with suppress(TooManyFaults):
                self._lists(old, None, before)
        return [] if before else faults

    def _broken_rules(self, obj: Json, old: Json | None) -> list[Fault]:
        faults = Faults()
        if self._rules is None:
            return faults
        try:
            if old is None:
                rules.run_all(self._rules, obj, faults=faults)
                return faults
            rules.run_all(self._rules, obj, old=old, faults=faults)
        except TooManyFaults:
            return faults
        return ratchet.still_wrong(self.node, obj, old=old, faults=faults) if faults else faults


def compile_custom(openapi_v3: Json) -> CustomSchema:
    """A structural schema, compiled. Raises `CelError` where a rule does not compile: `crd.structural` asks first."""
    return CustomSchema(build(openapi_v3))


def _metadata() -> BuiltinSchema:
    return compile_builtin(definitions.load(), OBJECT_META)


def _shown(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()
