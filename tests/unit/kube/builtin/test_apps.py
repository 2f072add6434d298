"""What a StatefulSet makes its pods and claims of."""

from __future__ import annotations

from typing import Any

import msgspec

from ullage.kube.builtin.apps import STATEFUL_SETS, StatefulSet
from ullage.kube.client.codec import decode

CLAIMED = {"name": "logs", "persistentVolumeClaim": {"claimName": "logs"}}


def stateful_set(template: Any) -> StatefulSet:
    claims = [{"metadata": {"name": "data", "creationTimestamp": None}, "spec": {}}]
    return decode(STATEFUL_SETS, msgspec.json.encode({"spec": {"template": template, "volumeClaimTemplates": claims}}))


def test_the_spec_of_its_pods_is_typed_and_nulls_in_it_count_as_absent() -> None:
    found = stateful_set({"metadata": {"creationTimestamp": None}, "spec": {"volumes": [CLAIMED], "containers": None}})
    assert [one.name for one in found.pod_spec.volumes] == ["logs"]
    assert found.pod_spec.containers == ()
    assert found.claim_templates == ("data",)


def test_a_template_without_a_spec_makes_pods_of_nothing() -> None:
    assert stateful_set({}).pod_spec.volumes == ()


def test_templates_are_kept_as_they_are() -> None:
    spec = {"volumes": [CLAIMED], "priorityClassName": "high"}
    assert stateful_set({"spec": spec}).spec.template == {"spec": spec}
