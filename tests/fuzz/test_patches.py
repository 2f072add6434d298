"""Patches of all kinds, on objects of built-in and custom kinds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import strategies as st

from .documents import PLACES, changed, config_map, deployment, values, vessel
from .harness import Server, for_a_while

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
TARGETS = {
    "/api/v1/namespaces/default/configmaps": config_map,
    "/apis/apps/v1/namespaces/default/deployments": deployment,
    "/apis/hostile.example.com/v1/namespaces/default/vessels": vessel,
}
STEPS = ("metadata", "labels", "a", "data", "k", "spec", "rows", "0", "-", "-1", "1", "anything", "", "~0", "~1", "containers")

pointers = st.one_of(st.just(""), st.lists(st.sampled_from(STEPS), max_size=5).map(lambda steps: "/" + "/".join(steps)))
operations = st.fixed_dictionaries(
    {"op": st.sampled_from(("add", "remove", "replace", "move", "copy", "test", "odd")), "path": pointers},
    optional={"from": pointers, "value": values},
)
json_patches = st.one_of(st.lists(operations, max_size=8), values)
Sent = tuple[str, str, Any]


def merges(place: str) -> st.SearchStrategy[Any]:
    return st.one_of(changed(TARGETS[place]()), changed({"spec": TARGETS[place]().get("spec", {})}), values)


def run(api: Server, sent: Sent) -> None:
    """Patches a fresh object; whatever the outcome, it can be patched and deleted afterwards."""
    place, media, patch = sent
    made = api.ask("POST", place, json.dumps(TARGETS[place]()).encode())
    assert made.accepted, made.body
    query = "?fieldManager=fuzz&force=true" if "apply" in media else ""
    answer = api.ask("PATCH", f"{place}/fuzz{query}", json.dumps(patch).encode("utf-8", "replace"), media)
    api.sound(place, answer.json if answer.accepted else made.json)


@pytest.mark.parametrize("kind", ["json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"])
def test_patches(api: Server, kind: str) -> None:
    assert TARGETS.keys() <= PLACES.keys()
    places = st.sampled_from(sorted(TARGETS))
    media = st.just(f"application/{kind}")
    if kind.startswith("json-patch"):
        sent = st.tuples(places, media, json_patches)
    else:
        sent = places.flatmap(lambda place: st.tuples(st.just(place), media, merges(place)))
    for_a_while(sent, lambda one: run(api, one))
