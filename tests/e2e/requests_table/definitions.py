"""CustomResourceDefinitions that break the rules for definitions."""

# ruff: noqa: E501 - messages stand on one line, as they come over the wire

from __future__ import annotations

import copy
from typing import Any

from ..kinds import LOOSE, throwaway
from .case import DEFINITIONS, MERGE_PATCH, Case, Check, Json, Step, post

GROUP = "{ns}.example.com"
NAME = "crumbs.{ns}.example.com"
GONE = (Step("DELETE", f"{DEFINITIONS}/{NAME}"),)


def definition(schema: Json | None = None, **spec: Any) -> Json:
    made = copy.deepcopy(throwaway(GROUP))
    made["spec"].update(spec)
    if schema is not None:
        made["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    return made


def field(**schema: Any) -> Json:
    """An object with one field `x` of the given schema."""
    return {"type": "object", "properties": {"x": schema}}


def version(name: str, **more: Any) -> Json:
    return {"name": name, "served": True, "storage": True, "schema": LOOSE, **more}


ESTABLISHED = (
    post(DEFINITIONS, definition()),
    Step(
        "GET",
        f"{DEFINITIONS}/{NAME}",
        until={"status.conditions[1].type": "Established", "status.conditions[1].status": "True"},
        save={"rv": "metadata.resourceVersion"},
    ),
)
ODD: Json = {"status": {"conditions": [{"message": "patched"}]}}

CASES = (
    Case(
        "a definition's status is written, and nothing else",
        "PUT",
        f"{DEFINITIONS}/{NAME}/status",
        {
            "metadata": {"name": NAME, "resourceVersion": "{rv}"},
            "spec": {"scope": "Galaxy"},
            "status": {"conditions": [{"type": "Mine", "status": "True"}], "storedVersions": ["v1"]},
        },
        setup=ESTABLISHED,
        cleanup=GONE,
        has={
            "spec.scope": "Namespaced",
            "status.conditions[0]": {"type": "Mine", "status": "True", "lastTransitionTime": None},
            "status.storedVersions": ["v1"],
        },
    ),
    Case(
        "a definition's status needs nothing of its spec",
        "PUT",
        f"{DEFINITIONS}/{NAME}/status",
        {"metadata": {"name": NAME, "resourceVersion": "{rv}"}, "status": {"storedVersions": ["v1"]}},
        setup=ESTABLISHED,
        cleanup=GONE,
        has={"spec.names.plural": "crumbs"},
    ),
    Case(
        "a patch of a definition's status takes odd conditions",
        "PATCH",
        f"{DEFINITIONS}/{NAME}/status",
        ODD,
        headers=MERGE_PATCH,
        setup=ESTABLISHED,
        cleanup=GONE,
        has={"status.conditions[0].type": "", "status.conditions[0].status": "", "status.conditions[0].message": "patched"},
    ),
    Case(
        "a definition with odd conditions can be deleted",
        "DELETE",
        f"{DEFINITIONS}/{NAME}",
        setup=(*ESTABLISHED, Step("PATCH", f"{DEFINITIONS}/{NAME}/status", ODD, headers=MERGE_PATCH)),
        cleanup=GONE,
    ),
    Case(
        "a definition is filled in",
        "POST",
        DEFINITIONS,
        definition(names={"plural": "crumbs", "kind": "Crumb"}),
        cleanup=GONE,
        expect=(201, ""),
        has={"spec.names.singular": "crumb", "spec.names.listKind": "CrumbList", "spec.conversion": {"strategy": "None"}},
    ),
    Case(
        "a definition's name is plural and group",
        "POST",
        DEFINITIONS,
        {**definition(), "metadata": {"name": "other.{ns}.example.com"}},
        expect=(422, "Invalid"),
        message='CustomResourceDefinition.apiextensions.k8s.io "other.{ns}.example.com" is invalid: metadata.name: Invalid value: "other.{ns}.example.com": must be spec.names.plural+"."+spec.group',
        causes=(("metadata.name", "FieldValueInvalid"),),
    ),
    Case(
        "a definition needs a scope",
        "POST",
        DEFINITIONS,
        definition(scope=""),
        expect=(422, "Invalid"),
        message='CustomResourceDefinition.apiextensions.k8s.io "crumbs.{ns}.example.com" is invalid: spec.scope: Required value',
        causes=(("spec.scope", "FieldValueRequired"),),
    ),
    Case(
        "a definition's scope must be known",
        "POST",
        DEFINITIONS,
        definition(scope="Galaxy"),
        expect=(422, "Invalid"),
        message='CustomResourceDefinition.apiextensions.k8s.io "crumbs.{ns}.example.com" is invalid: spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"',
        causes=(("spec.scope", "FieldValueNotSupported"),),
    ),
    Case(
        "a definition needs versions",
        "POST",
        DEFINITIONS,
        definition(versions=[]),
        expect=(422, "Invalid"),
        message='CustomResourceDefinition.apiextensions.k8s.io "crumbs.{ns}.example.com" is invalid: [spec.versions: Invalid value: []: must have exactly one version marked as storage version, status.storedVersions: Invalid value: null: must have at least one stored version]',
        causes=(
            ("spec.versions", "FieldValueInvalid"),
            ("status.storedVersions", "FieldValueInvalid"),
        ),
    ),
    Case(
        "a definition needs one storage version",
        "POST",
        DEFINITIONS,
        definition(versions=[version("v1", storage=False)]),
        expect=(422, "Invalid"),
        message='CustomResourceDefinition.apiextensions.k8s.io "crumbs.{ns}.example.com" is invalid: [spec.versions: Invalid value: …: must have exactly one version marked as storage version, status.storedVersions: Invalid value: null: must have at least one stored version]',
        causes=(
            ("spec.versions", "FieldValueInvalid"),
            ("status.storedVersions", "FieldValueInvalid"),
        ),
    ),
    Case(
        "a definition has one storage version only",
        "POST",
        DEFINITIONS,
        definition(versions=[version("v1"), version("v2")]),
        expect=(422, "Invalid"),
        message='CustomResourceDefinition.apiextensions.k8s.io "crumbs.{ns}.example.com" is invalid: [spec.versions: Invalid value: …: must have exactly one version marked as storage version, status.storedVersions: Invalid value: ["v1"]: must have the storage version v2]',
        causes=(
            ("spec.versions", "FieldValueInvalid"),
            ("status.storedVersions", "FieldValueInvalid"),
        ),
    ),
    Case(
        "a version needs a schema",
        "POST",
        DEFINITIONS,
        definition(versions=[{"name": "v1", "served": True, "storage": True}]),
        expect=(422, "Invalid"),
        message='CustomResourceDefinition.apiextensions.k8s.io "crumbs.{ns}.example.com" is invalid: spec.versions[0].schema.openAPIV3Schema: Required value',
        causes=(("spec.versions[0].schema.openAPIV3Schema", "FieldValueRequired"),),
    ),
    Case(
        "a schema's root is an object",
        "POST",
        DEFINITIONS,
        definition({"type": "string"}),
        expect=(422, "Invalid"),
        message='CustomResourceDefinition.apiextensions.k8s.io "crumbs.{ns}.example.com" is invalid: spec.validation.openAPIV3Schema.type: Invalid value: "string": must be object at the root',
        causes=(("spec.validation.openAPIV3Schema.type", "FieldValueInvalid"),),
    ),
    Case(
        "a schema must be structural",
        "POST",
        DEFINITIONS,
        definition(field(description="no type")),
        expect=(422, "Invalid"),
        message='CustomResourceDefinition.apiextensions.k8s.io "crumbs.{ns}.example.com" is invalid: spec.validation.openAPIV3Schema.properties[x].type: Required value: must not be empty for specified object fields',
        causes=(("spec.validation.openAPIV3Schema.properties[x].type", "FieldValueRequired"),),
    ),
    Case(
        "a schema forbids references",
        "POST",
        DEFINITIONS,
        definition(field(**{"$ref": "#/x"})),
        expect=(422, "Invalid"),
        message='CustomResourceDefinition.apiextensions.k8s.io "crumbs.{ns}.example.com" is invalid: spec.validation.openAPIV3Schema.properties[x].$ref: Forbidden: $ref is not supported',
        causes=(("spec.validation.openAPIV3Schema.properties[x].$ref", "FieldValueForbidden"),),
    ),
    Case(
        "a schema's type must be known",
        "POST",
        DEFINITIONS,
        definition(field(type="colour")),
        expect=(422, "Invalid"),
        message='CustomResourceDefinition.apiextensions.k8s.io "crumbs.{ns}.example.com" is invalid: spec.validation.openAPIV3Schema.properties[x].type: Unsupported value: "colour": supported values: "array", "boolean", "integer", "number", "object", "string"',
        causes=(("spec.validation.openAPIV3Schema.properties[x].type", "FieldValueNotSupported"),),
    ),
    Case(
        "a default must fit its schema",
        "POST",
        DEFINITIONS,
        definition(field(type="integer", default="one")),
        expect=(422, "Invalid"),
        message='CustomResourceDefinition.apiextensions.k8s.io "crumbs.{ns}.example.com" is invalid: spec.validation.openAPIV3Schema.properties[x].default: Invalid value: "string":  in body must be of type integer: "string"',
        causes=(("spec.validation.openAPIV3Schema.properties[x].default", "FieldValueTypeInvalid"),),
    ),
    Case(
        "a pattern must parse",
        "POST",
        DEFINITIONS,
        definition(field(type="string", pattern="(")),
        expect=(422, "Invalid"),
        message='CustomResourceDefinition.apiextensions.k8s.io "crumbs.{ns}.example.com" is invalid: spec.validation.openAPIV3Schema.properties[x].pattern: Invalid value: "(": must be a valid regular expression, but isn\'t: …',
        causes=(("spec.validation.openAPIV3Schema.properties[x].pattern", "FieldValueInvalid"),),
    ),
    Case(
        "a list map needs keys",
        "POST",
        DEFINITIONS,
        definition(field(type="array", items={"type": "object"}, **{"x-kubernetes-list-type": "map"})),
        expect=(422, "Invalid"),
        message='CustomResourceDefinition.apiextensions.k8s.io "crumbs.{ns}.example.com" is invalid: spec.validation.openAPIV3Schema.properties[x].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map',
        causes=(("spec.validation.openAPIV3Schema.properties[x].x-kubernetes-list-map-keys", "FieldValueRequired"),),
    ),
    Case(
        "a rule must parse",
        "POST",
        DEFINITIONS,
        definition(field(type="integer", **{"x-kubernetes-validations": [{"rule": "self +"}]})),
        expect=(422, "Invalid"),
        message='CustomResourceDefinition.apiextensions.k8s.io "crumbs.{ns}.example.com" is invalid: spec.validation.openAPIV3Schema.properties[x].x-kubernetes-validations[0].rule: Invalid value: …: compilation failed: …',
        causes=(("spec.validation.openAPIV3Schema.properties[x].x-kubernetes-validations[0].rule", "FieldValueInvalid"),),
        then=(Check(f"{DEFINITIONS}/{NAME}", 404),),
    ),
    Case(
        "a rule names only fields that are there",
        "POST",
        DEFINITIONS,
        definition(
            {"type": "object", "properties": {"a": {"type": "integer"}}, "x-kubernetes-validations": [{"rule": "self.b > 1"}]}
        ),
        expect=(422, "Invalid"),
        message='CustomResourceDefinition.apiextensions.k8s.io "crumbs.{ns}.example.com" is invalid: spec.validation.openAPIV3Schema.x-kubernetes-validations[0].rule: Invalid value: …: compilation failed: …',
        causes=(("spec.validation.openAPIV3Schema.x-kubernetes-validations[0].rule", "FieldValueInvalid"),),
    ),
    Case(
        "a rule is true or false",
        "POST",
        DEFINITIONS,
        definition(field(type="integer", **{"x-kubernetes-validations": [{"rule": "self + 1"}]})),
        expect=(422, "Invalid"),
        message='CustomResourceDefinition.apiextensions.k8s.io "crumbs.{ns}.example.com" is invalid: spec.validation.openAPIV3Schema.properties[x].x-kubernetes-validations[0].rule: Invalid value: …: cel expression must evaluate to a bool',
        causes=(("spec.validation.openAPIV3Schema.properties[x].x-kubernetes-validations[0].rule", "FieldValueInvalid"),),
    ),
    Case(
        "a column needs a path",
        "POST",
        DEFINITIONS,
        definition(versions=[version("v1", additionalPrinterColumns=[{"name": "X", "type": "string", "jsonPath": "spec"}])]),
        expect=(422, "Invalid"),
        message='CustomResourceDefinition.apiextensions.k8s.io "crumbs.{ns}.example.com" is invalid: spec.additionalPrinterColumns[0].JSONPath: Invalid value: "spec": must be a simple json path starting with .',
        causes=(("spec.additionalPrinterColumns[0].JSONPath", "FieldValueInvalid"),),
    ),
    Case(
        "a group needs a dot",
        "POST",
        DEFINITIONS,
        {**definition(group="plain"), "metadata": {"name": "crumbs.plain"}},
        expect=(422, "Invalid"),
        message='CustomResourceDefinition.apiextensions.k8s.io "crumbs.plain" is invalid: spec.group: Invalid value: "plain": should be a domain with at least one dot',
        causes=(("spec.group", "FieldValueInvalid"),),
    ),
    Case(
        "a group of the project's own needs approval",
        "POST",
        DEFINITIONS,
        {**definition(group="x.k8s.io"), "metadata": {"name": "crumbs.x.k8s.io"}},
        expect=(422, "Invalid"),
        message='CustomResourceDefinition.apiextensions.k8s.io "crumbs.x.k8s.io" is invalid: metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111',
        causes=(("metadata.annotations[api-approved.kubernetes.io]", "FieldValueRequired"),),
    ),
    Case(
        "a version's name is a label",
        "POST",
        DEFINITIONS,
        definition(versions=[version("V_1")]),
        expect=(422, "Invalid"),
        message="CustomResourceDefinition.apiextensions.k8s.io \"crumbs.{ns}.example.com\" is invalid: [spec.versions[0].name: Invalid value: \"V_1\": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?'), spec.version: Invalid value: \"V_1\": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')]",
        causes=(
            ("spec.versions[0].name", "FieldValueInvalid"),
            ("spec.version", "FieldValueInvalid"),
        ),
    ),
    Case(
        "a definition twice is refused",
        "POST",
        DEFINITIONS,
        definition(),
        setup=(post(DEFINITIONS, definition()),),
        cleanup=GONE,
        expect=(409, "AlreadyExists"),
        message='customresourcedefinitions.apiextensions.k8s.io "crumbs.{ns}.example.com" already exists',
    ),
)
