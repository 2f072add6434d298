"""Whether the hooks of a user cluster are asked about every new Machine, by what is registered there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.projects.builders import registered_hook
from ullage.admission.callers import Caller
from ullage.admission.registration import ByUrl, Registration
from ullage.kube.builtin.admissionregistration import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, WebhookConfiguration
from ullage.projects.machines.registrations import missing
from ullage.projects.webhook.machines import MachineWebhook

ADMITS, STAMPS = registered_hook("project-machine"), registered_hook("project-machine-stamp")
RULE = ADMITS["rules"][0]


def configuration(*hooks: dict[str, Any]) -> list[WebhookConfiguration]:
    return [WebhookConfiguration(webhooks=hooks)]


def test_what_the_seed_registers_is_asked_about_every_machine() -> None:
    hooks = MachineWebhook(None).hooks()  # type: ignore[arg-type]  # nothing is asked
    ours = Registration("ullage-elsewhere", hooks, ByUrl("https://seed:9443"), caller=Caller("c-1", "token"))
    made = {kind: ours.configuration(kind, b"PEM") or {} for kind in (VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS)}
    found = {kind: configuration(*body["webhooks"]) for kind, body in made.items()}
    assert missing(found[VALIDATING_WEBHOOKS], found[MUTATING_WEBHOOKS]) == []


@pytest.mark.parametrize(
    ("fields", "edited"),
    [
        pytest.param({}, "", id="nothing was changed"),
        pytest.param({"matchConditions": [], "objectSelector": None}, "", id="what is empty says nothing"),
        pytest.param({"matchConditions": [{"name": "never", "expression": "false"}]}, "matchConditions", id="a condition"),
        pytest.param({"objectSelector": {"matchLabels": {"a": ""}}}, "objectSelector", id="a selector by an empty label"),
        pytest.param({"namespaceSelector": {"matchExpressions": [{}]}}, "namespaceSelector", id="a selector of namespaces"),
        pytest.param({"failurePolicy": "Ignore"}, "failurePolicy", id="failures pass"),
        pytest.param({"clientConfig": {"service": {"name": "mine"}}}, "clientConfig", id="a service in the user cluster"),
        pytest.param({"rules": []}, "rules", id="nothing is asked about"),
        pytest.param({"rules": [{**RULE, "operations": ["DELETE"]}]}, "rules", id="deletions alone are asked about"),
        pytest.param({"rules": [{**RULE, "resources": ["machines/status"]}]}, "rules", id="statuses alone are asked about"),
        pytest.param({"rules": [{**RULE, "scope": "Cluster"}]}, "rules", id="what is in no namespace"),
        pytest.param({"rules": [{**RULE, "operations": ["*"], "scope": "*"}]}, "", id="more is asked about than need be"),
        pytest.param({"rules": [], "failurePolicy": "Ignore"}, "rules, failurePolicy", id="several fields"),
    ],
)
def test_fields_by_which_a_machine_is_not_asked_about_are_named(fields: dict[str, Any], edited: str) -> None:
    told = [f"the one that admits Machines (edited: {edited})"] if edited else []
    assert missing(configuration(ADMITS | fields), configuration(STAMPS)) == told


def test_one_that_is_asked_is_enough() -> None:
    off = ADMITS | {"failurePolicy": "Ignore"}
    assert missing([*configuration(off), *configuration(ADMITS)], configuration(STAMPS)) == []


def test_each_hook_is_looked_for_in_its_own_phase() -> None:
    assert missing(configuration(STAMPS), configuration(ADMITS)) == [
        "the one that stamps Machines",
        "the one that admits Machines",
    ]
