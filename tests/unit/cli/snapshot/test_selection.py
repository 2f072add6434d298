"""Which claims pods and StatefulSets use, and which snapshots are of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ullage.cli.snapshot.selection import Everything, OfClaims, OfVolume, Selection, of_pod, of_stateful_set
from ullage.kube.builtin.apps import StatefulSet
from ullage.kube.builtin.core import Pod
from ullage.kube.kinds import Meta
from ullage.selectors import LabelSelector
from ullage.snapshots.model import CLAIM_LABEL, VOLUME_LABEL, Ref, Snapshot, label_value, labels_for

Json = dict[str, Any]
LONG = "a-claim-whose-name-is-longer-than-any-label-may-be." + "x" * 40


def pod(*volumes: Json) -> Pod:
    return msgspec.convert({"metadata": {"name": "db-0"}, "spec": {"volumes": list(volumes)}}, Pod)


def stateful_set(*volumes: Json, templates: tuple[str, ...] = ("data",), **spec: Any) -> StatefulSet:
    claims = [{"metadata": {"name": name}} for name in templates]
    body = {"template": {"spec": {"volumes": list(volumes)}}, "volumeClaimTemplates": claims, **spec}
    return msgspec.convert({"metadata": {"name": "db"}, "spec": body}, StatefulSet)


def claimed(name: str, claim: str) -> Json:
    return {"name": name, "persistentVolumeClaim": {"claimName": claim}}


def ephemeral(name: str) -> Json:
    return {"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}


def snapshot(of: str, /, *, namespace: str = "shop", **labels: str) -> Snapshot:
    known = {"claim": CLAIM_LABEL, "volume": VOLUME_LABEL}
    meta = Meta(name="s", namespace=namespace, labels={known[key]: value for key, value in labels.items()})
    return Snapshot(meta=meta, claim=of)


def read_by(selection: Selection, one: Snapshot) -> bool:
    """Whether the lists that are read would have it, and it would be taken from there."""
    return selection.takes(one) and any(LabelSelector.parse(text).matches(one.meta.labels) for text in selection.selectors)


@pytest.mark.parametrize(
    ("found", "names"),
    [
        pytest.param(pod(claimed("d", "data-db-0")), {"data-db-0"}, id="a claim by its name"),
        pytest.param(pod(ephemeral("scratch")), {"db-0-scratch"}, id="an ephemeral volume has the pod's name in its claim's"),
        pytest.param(pod(claimed("a", "one"), claimed("b", "one")), {"one"}, id="a claim that is mounted twice"),
        pytest.param(pod({"name": "c", "configMap": {"name": "x"}}), set(), id="other volumes are no claims"),
        pytest.param(pod(), set(), id="no volumes"),
    ],
)
def test_the_claims_of_a_pod(found: Pod, names: set[str]) -> None:
    assert of_pod(found) == OfClaims(names=frozenset(names))


@pytest.mark.parametrize(
    ("found", "claim", "has"),
    [
        pytest.param(stateful_set(), "data-db-0", True, id="the first ordinal"),
        pytest.param(stateful_set(replicas=1), "data-db-7", True, id="an ordinal that was scaled away"),
        pytest.param(stateful_set(ordinals={"start": 5}), "data-db-5", True, id="ordinals that start elsewhere"),
        pytest.param(stateful_set(), "data-db-01", False, id="no ordinal is written with a leading zero"),
        pytest.param(stateful_set(), "data-db-", False, id="no ordinal at all"),
        pytest.param(stateful_set(), "data-db-1-0", False, id="the claim of a set called db-1"),
        pytest.param(stateful_set(), "data-db2-0", False, id="the claim of a set called db2"),
        pytest.param(stateful_set(), "logs-db-0", False, id="another template"),
        pytest.param(stateful_set(templates=("data", "logs")), "logs-db-3", True, id="the second template"),
        pytest.param(stateful_set(claimed("s", "shared")), "shared", True, id="a claim that all its pods share"),
        pytest.param(
            stateful_set(claimed("data", "decoy")), "decoy", False, id="a volume that the template of the same name replaces"
        ),
        pytest.param(stateful_set(ephemeral("tmp")), "db-4-tmp", True, id="an ephemeral volume of any pod"),
        pytest.param(stateful_set(ephemeral("tmp")), "db-x-tmp", False, id="an ephemeral volume of something else"),
        pytest.param(stateful_set(templates=()), "data-db-0", False, id="a set without templates"),
    ],
)
def test_the_claims_of_a_stateful_set(found: StatefulSet, claim: str, has: bool) -> None:
    assert of_stateful_set(found).has(claim) is has
    assert read_by(of_stateful_set(found), snapshot(claim, claim=label_value(claim))) is has


@pytest.mark.parametrize(
    ("selection", "one", "expected"),
    [
        pytest.param(OfClaims(frozenset({"data"})), snapshot("data", claim="data"), True, id="labelled"),
        pytest.param(OfClaims(frozenset({"data"})), snapshot("data"), True, id="made by others: no label"),
        pytest.param(OfClaims(frozenset({"data"})), snapshot("other", claim="data"), False, id="labelled falsely"),
        pytest.param(OfClaims(frozenset({"a", "b"})), snapshot("b", claim="b"), True, id="one of several claims"),
        pytest.param(OfClaims(frozenset({LONG})), snapshot(LONG, claim=label_value(LONG)), True, id="a name beyond labels"),
        pytest.param(OfClaims(), snapshot("data"), False, id="no claims, no snapshots"),
        pytest.param(OfClaims(frozenset({""})), snapshot(""), False, id="an import is of no claim"),
        pytest.param(OfVolume("pv-1"), snapshot("data", volume="pv-1"), True, id="a volume by its label"),
        pytest.param(OfVolume("pv-1"), snapshot("data", volume="pv-2"), False, id="another volume"),
        pytest.param(OfVolume("pv-1"), snapshot("data"), False, id="a volume whose claim nobody knows"),
        pytest.param(OfVolume("pv-1", Ref("shop", "data")), snapshot("data"), True, id="no label, but the volume's claim"),
        pytest.param(
            OfVolume("pv-1", Ref("shop", "data")), snapshot("data", namespace="x"), False, id="a claim of that name elsewhere"
        ),
        pytest.param(
            OfVolume("pv-1", Ref("shop", "data")),
            snapshot("data", volume="pv-0"),
            False,
            id="of the volume that the claim had before",
        ),
        pytest.param(Everything(), snapshot(""), True, id="everything"),
    ],
)
def test_which_snapshots_are_meant(selection: Selection, one: Snapshot, expected: bool) -> None:
    assert read_by(selection, one) is expected


def test_the_labels_are_the_ones_that_the_controller_writes() -> None:
    one = Snapshot(meta=Meta(name="s", namespace="shop", labels=labels_for(LONG, "pv-1")), claim=LONG)
    assert read_by(OfClaims(frozenset({LONG})), one)
    assert read_by(OfVolume("pv-1"), one)


def test_those_without_labels_are_read_first_so_that_none_slips_through() -> None:
    unlabelled, labelled = OfClaims(frozenset({"data"})).selectors
    assert (unlabelled, labelled) == ("!ullage.io/claim", "ullage.io/claim in (data)")


def test_too_many_claims_for_a_url_are_looked_through() -> None:
    many = OfClaims(frozenset(f"data-db-{number}" for number in range(1000)))
    assert many.selectors == ("",)
    assert many.takes(snapshot("data-db-999"))
