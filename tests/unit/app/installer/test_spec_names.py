"""Names in the specs of our kinds: each is refused by the schema where it cannot be one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import re2

from ullage.app.composition import compose
from ullage.app.drivers import Chosen
from ullage.app.installer.manifests import definitions
from ullage.app.project_options import ProjectChoice, roles_of
from ullage.kube.crds.definitions import is_ours

Json = dict[str, Any]

# What is no name of an object, or a part of one: words that have a reading of their own, which names its faults.
WORDS = {
    "hookruns": {
        "spec.podUID": "a uid is compared, and leads nowhere",
        "spec.pre.command[]": "a program and its arguments",
        "spec.post.command[]": "a program and its arguments",
        "spec.holders[].group": "of a kind; looked up among those that are known",
        "spec.holders[].version": "of a kind; looked up among those that are known",
        "spec.holders[].resource": "of a kind; looked up among those that are known",
        "spec.holders[].uid": "a uid is compared, and leads nowhere",
    },
    "machinecatalogues": {
        "spec.region": "as the provider calls it",
        "spec.credential": "namespace/name; only one that a Cluster of the seed names is read",
        "spec.endpoint": "an address; only one that a Seed names is asked",
        "data.source": "for people",
        "data.failure.reason": "for people",
        "shown.problem": "for people",
    },
    "snapshotschedules": {
        "spec.schedule": "five fields of cron; read by the hook",
        "spec.timeZone": "of the IANA database; read by the hook",
        "spec.claimSelector.matchLabels[]": "a label; read by the hook",
        "spec.claimSelector.matchExpressions[].key": "a label; read by the hook",
        "spec.claimSelector.matchExpressions[].values[]": "a label; read by the hook",
        "spec.template.labels[]": "a label; read by the hook",
        "spec.hooks.pre.command[]": "a program and its arguments",
        "spec.hooks.post.command[]": "a program and its arguments",
    },
    "snapshotshares": {"spec.targets.matchLabels[]": "compared with labels, and leads nowhere"},
}
BAD = ("../vic/data", "a/b", "..", "a b", "a\n", "-a", "a%2fb", "a\x00")


def texts(schema: Json, place: str) -> Iterator[tuple[str, Json]]:
    if schema.get("type") == "string" and "enum" not in schema and "format" not in schema:
        yield place, schema
    for name, inner in schema.get("properties", {}).items():
        yield from texts(inner, f"{place}.{name}")
    for holder in ("items", "additionalProperties"):
        if isinstance(schema.get(holder), dict):
            yield from texts(schema[holder], f"{place}[]")


def specs() -> Iterator[tuple[str, str, Json]]:
    """Every text that people may write into a kind of ours: all but its status."""
    for role in ("cluster", "master", "seed"):
        chosen = Chosen(projects=ProjectChoice(roles=roles_of([role])))
        for manifest in definitions(compose(chosen), foreign=True):
            crd = manifest.body
            assert is_ours(crd)
            if crd["spec"]["group"] != "ullage.io":
                continue
            for version in crd["spec"]["versions"]:
                properties = version["schema"]["openAPIV3Schema"]["properties"]
                for top in properties.keys() - {"apiVersion", "kind", "metadata", "status"}:
                    for place, schema in texts(properties[top], top):
                        yield crd["spec"]["names"]["plural"], place, schema


FOUND = {(kind, place): schema for kind, place, schema in specs()}


@pytest.mark.parametrize(("kind", "place"), sorted(FOUND), ids=lambda one: one)
def test_a_text_that_cannot_be_a_name_is_refused_by_the_schema(kind: str, place: str) -> None:
    schema, said = FOUND[kind, place], WORDS.get(kind, {}).get(place)
    if said is not None:
        return
    assert "pattern" in schema, "a name, an amount or a time has a pattern; what is none of these stands in WORDS"
    assert "maxLength" in schema or schema["pattern"].endswith("[mhdw]$"), "it has a bound"
    for bad in BAD:
        assert re2.search(schema["pattern"], bad) is None, bad


def test_what_is_excepted_is_there() -> None:
    assert {(kind, place) for kind, places in WORDS.items() for place in places} <= FOUND.keys()
    assert ("snapshotrestores", "spec.claimName") in FOUND
