"""A custom kind with everything that a value can be checked by: patterns, rules, keyed lists, sets, unknown fields."""

from __future__ import annotations

from typing import Final

from ..kinds import Json

_SCHEMA: Final[Json] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer"},
                "words": {"type": "string", "pattern": r"^(\w+\s?)*$"},
                "letters": {"type": "string", "pattern": "^(a|aa)+$"},
                "moment": {"type": "string", "format": "date-time"},
                "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "rows": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "value": {"type": "string", "default": "v"}},
                    },
                },
                "numbers": {"type": "array", "maxItems": 100000, "items": {"type": "integer"}},
                "choice": {"anyOf": [{"required": [f"f{index}"]} for index in range(20)], "type": "object"},
                "text": {"type": "string", "maxLength": 3000000},
            },
            "x-kubernetes-validations": [
                {"rule": "!has(self.numbers) || self.numbers.all(n, n >= 0)"},
                {"rule": "!has(self.text) || !self.text.contains('never')"},
            ],
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}

VESSELS: Final[Json] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "vessels.hostile.example.com"},
    "spec": {
        "group": "hostile.example.com",
        "scope": "Namespaced",
        "names": {"plural": "vessels", "singular": "vessel", "kind": "Vessel", "listKind": "VesselList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
                },
                "additionalPrinterColumns": [{"name": "Text", "type": "string", "jsonPath": ".spec.text"}],
                "schema": {"openAPIV3Schema": _SCHEMA},
            }
        ],
    },
}
