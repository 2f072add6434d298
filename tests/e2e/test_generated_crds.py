"""A definition that was generated from types: accepted as it is, enforced, and explained to people in the types' own words."""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.kube.vessel import VESSELS
from ullage.kube.crds.definitions import crd_of, to_yaml

from .api import Api
from .conftest import DEFINITIONS, wait_served
from .kubectl import Kubectl

Json = dict[str, Any]
# Names of this process's own: workers that share a cluster make and delete the kind independently.
MARK = uuid.uuid4().hex[:6]
ONE, SHORT, CATEGORY = f"vessel{MARK}", f"ves{MARK}", f"cellar{MARK}"
KIND = dataclasses.replace(
    VESSELS,
    group=f"g{MARK}.example.com",
    kind=f"Vessel{MARK}",
    plural=f"vessels{MARK}",
    short_names=(SHORT,),
    categories=(CATEGORY,),
)


@pytest.fixture(scope="module")
def kubectl_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kubectl-generated")


@pytest.fixture(scope="module")
def served(api: Api, kubectl_home: Path) -> Iterator[Api]:
    """The sample kind, applied as `ullage install` does it: server-side, from the text."""
    admin = Kubectl(api.plane, namespace="default", home=kubectl_home)
    ran = admin("apply", "--server-side", "--field-manager=ullage", "-f", "-", stdin=to_yaml(crd_of(KIND)))
    assert ran.err == "", "no warnings"
    wait_served(api, KIND.path())
    until_explained(admin)
    yield api
    api.call("DELETE", f"{DEFINITIONS}/{KIND.name}")


def until_explained(kubectl: Kubectl) -> None:
    """kube-apiserver publishes the schema a moment after it serves the kind."""
    for _ in range(200):
        if kubectl.run("explain", KIND.name).code == 0:
            return
    raise AssertionError("kubectl explain does not know the kind")


@pytest.fixture
def kubectl(served: Api, namespace: str, kubectl_home: Path) -> Kubectl:
    return Kubectl(served.plane, namespace=namespace, home=kubectl_home)


def vessel(name: str = "a", **spec: Any) -> Json:
    return {"apiVersion": KIND.api_version, "kind": KIND.kind, "metadata": {"name": name}, "spec": {"capacity": "2k", **spec}}


def test_the_definition_is_structural_and_applying_it_again_changes_nothing(served: Api, kubectl: Kubectl) -> None:
    found = served.get(f"{DEFINITIONS}/{KIND.name}").obj
    conditions = {one["type"]: one["status"] for one in found["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    kubectl("apply", "--server-side", "--field-manager=ullage", "-f", "-", stdin=to_yaml(crd_of(KIND)))
    again = served.get(f"{DEFINITIONS}/{KIND.name}").obj
    assert again["metadata"]["generation"] == found["metadata"]["generation"]
    assert again["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "ullage"}


def explained(kubectl: Kubectl, path: str) -> str:
    """What kubectl says, without its line breaks."""
    return " ".join(kubectl("explain", path).out.split())


@pytest.mark.parametrize(
    ("path", "words"),
    [
        pytest.param("", "Vessel holds a liquid, and says how much of it.", id="the kind"),
        pytest.param(".spec", "What the vessel should be.", id="a type"),
        pytest.param(".spec.capacity", "How much fits in, in litres, as a quantity (`500`, `2k`).", id="a field"),
        pytest.param(".spec.liquid", "ENUM: Water Wine DESCRIPTION: What is in it. Default: Water.", id="an enum"),
        pytest.param(".spec.valves", "- inlets come from above, - outlets from below.", id="a list of points"),
        pytest.param(".spec.valves", "name <string> -required- What the valve is called", id="a field of items"),
        pytest.param(".spec.source", "Where the content came from: exactly one", id="a field that its type explains"),
        pytest.param(".status.conditions", "observedGeneration <integer>", id="conditions"),
        pytest.param(".spec.tags", "tags <map[string]string>", id="a map"),
    ],
)
def test_explain_shows_what_the_types_say(kubectl: Kubectl, path: str, words: str) -> None:
    assert words in explained(kubectl, ONE + path)
    assert words in explained(kubectl, SHORT + path)


def test_defaults_are_filled_in_and_unknown_fields_are_kept_only_where_they_may_be(kubectl: Kubectl) -> None:
    body = vessel(valves=[{"name": "top"}], settings={"x": [1, {"z": 2}]}, grade=None, source=None)
    body["spec"]["nonsense"] = 1
    kubectl("create", "--validate=false", "-f", "-", stdin=body)
    spec = kubectl("get", ONE, "a", "-o", "json").json["spec"]
    assert spec == {
        "capacity": "2k",
        "liquid": "Water",
        "cooling": {"mode": "Weak", "tolerance": 0.5},
        "valves": [{"name": "top", "diameter": 50}],
        "settings": {"x": [1, {"z": 2}]},
        "source": None,
    }


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param({"capacity": "2 k"}, "spec.capacity", id="a quantity that is none"),
        pytest.param({"grade": "C"}, 'spec.grade: Unsupported value: "C": supported values: "A", "B"', id="no such grade"),
        pytest.param({"cooling": {"tolerance": 5}}, "spec.cooling.tolerance", id="at an exclusive limit"),
        pytest.param({"valves": [{"name": "a"}, {"name": "a"}]}, "spec.valves[1]: Duplicate value", id="two of one name"),
        pytest.param({"valves": [{}]}, "spec.valves[0].name: Required value", id="no name"),
        pytest.param({"owners": ["a", "a"]}, 'spec.owners[1]: Duplicate value: "a"', id="twice in a set"),
        pytest.param({"tags": {"a": "x" * 11}}, "spec.tags.a: Too long", id="a value of a map"),
        pytest.param(
            {"valves": [{"name": "a", "open": True, "diameter": 400}]}, "a wide valve stays shut", id="a rule on items"
        ),
        pytest.param({"source": {"well": "w", "vineyard": "v"}}, "exactly one of well and vineyard", id="a rule on a part"),
        pytest.param({"source": {}}, "exactly one of well and vineyard", id="a rule on an empty part"),
        pytest.param({"cooling": {"mode": "Of"}}, 'supported values: "Off", "Strong", "Weak"', id="no such mode"),
    ],
)
def test_what_the_types_forbid_is_refused(kubectl: Kubectl, spec: Json, message: str) -> None:
    assert message in kubectl.fails("create", "-f", "-", stdin=vessel(**spec))


def test_rules_on_the_name_and_on_changes(kubectl: Kubectl) -> None:
    assert "painted on" in kubectl.fails("create", "-f", "-", stdin=vessel("x" * 41))
    kubectl("create", "-f", "-", stdin=vessel())
    patch = json.dumps({"spec": {"liquid": "Wine"}})
    assert "spec.liquid: Invalid value" in (said := kubectl.fails("patch", ONE, "a", "--type=merge", "-p", patch))
    assert "liquid cannot be changed" in said


def test_columns_short_names_categories_and_the_status_subresource(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=vessel())
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Full",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = json.dumps({"spec": {"capacity": "1"}, "status": {"level": 7, "conditions": [condition]}})
    kubectl("patch", ONE, "a", "--subresource=status", "--type=merge", "-p", status)
    wide = kubectl("get", SHORT, "-o", "wide")
    assert wide.lines[0].split() == ["NAME", "CAPACITY", "LIQUID", "READY", "LEVEL", "AGE"]
    assert wide.row("a")[1:5] == ["2k", "Water", "True", "7"]
    assert kubectl("get", CATEGORY, "-o", "name").lines == [f"{ONE}.{KIND.group}/a"]
