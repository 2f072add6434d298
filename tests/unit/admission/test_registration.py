"""What is registered, word by word, and who may overwrite it."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.unit.admission.builders import FakeApi
from ullage.admission.callers import Caller
from ullage.admission.registration import Address, ByService, ByUrl, Registration, read, register, republish
from ullage.admission.selftest import selftest_hook
from ullage.kube.builtin.admissionregistration import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from ullage.kube.errors import Conflict
from ullage.kube.kinds import Kind, Object
from ullage.kube.review import Decision, Hook, Review, Target

SNAPSHOT = Kind("longhorn.io", "v1beta2", "Snapshot", "snapshots", Object)
URL = ByUrl("https://127.0.0.1:9443")


async def allow(review: Review) -> Decision:
    return Decision.allow()


def hook(**fields: Any) -> Hook:
    target = Target.of(SNAPSHOT, "CREATE", "UPDATE", subresources=("", "status"))
    wanted: dict[str, Any] = {"name": "guard", "phase": "validate", "targets": (target,), "answer": allow}
    return Hook(**wanted | fields)


def entry(declared: Hook, address: Address = URL) -> dict[str, Any]:
    kind = MUTATING_WEBHOOKS if declared.phase == "mutate" else VALIDATING_WEBHOOKS
    found = Registration("ullage", (declared,), address).configuration(kind, b"PEM")
    assert found is not None
    return dict(found["webhooks"][0])


def test_conditions_are_registered_by_name() -> None:
    found = entry(hook(only_if={"marked": "'a' in object.metadata.annotations"}))
    assert found["matchConditions"] == [{"name": "marked", "expression": "'a' in object.metadata.annotations"}]


def test_an_entry_says_everything_that_the_api_server_would_default() -> None:
    assert entry(hook(not_in=("kube-system",))) == {
        "name": "guard.webhook.ullage.io",
        "clientConfig": {"url": "https://127.0.0.1:9443/hooks/guard", "caBundle": base64.b64encode(b"PEM").decode()},
        "rules": [
            {
                "apiGroups": ["longhorn.io"],
                "apiVersions": ["v1beta2"],
                "resources": ["snapshots", "snapshots/status"],
                "operations": ["CREATE", "UPDATE"],
                "scope": "Namespaced",
            }
        ],
        "namespaceSelector": {
            "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}]
        },
        "objectSelector": {},
        "matchPolicy": "Equivalent",
        "failurePolicy": "Fail",
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": 10,
        "admissionReviewVersions": ["v1"],
    }


def test_without_exclusions_of_its_own_a_hook_sees_every_namespace() -> None:
    assert entry(hook())["namespaceSelector"] == {}


def test_a_hook_for_labelled_namespaces_selects_them_among_those_that_it_may_see() -> None:
    labels = {"ullage.io/headroom": "on"}
    assert entry(hook(namespace_labels=labels))["namespaceSelector"] == {"matchLabels": labels}
    assert entry(hook(namespace_labels=labels, not_in=("kube-system",)))["namespaceSelector"] == {
        "matchLabels": labels,
        "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}],
    }


def test_in_another_cluster_the_path_tells_which_it_is() -> None:
    found = Registration("ullage", (hook(elsewhere=True),), URL, caller=Caller("far", "abc"))
    configuration = found.configuration(VALIDATING_WEBHOOKS, b"PEM")
    assert configuration is not None
    assert configuration["webhooks"][0]["clientConfig"]["url"] == "https://127.0.0.1:9443/hooks/guard/clusters/far/abc"


@pytest.mark.parametrize(
    ("elsewhere", "caller", "problem"),
    [
        pytest.param(True, None, "it is for other clusters alone", id="one for others, in our own cluster"),
        pytest.param(False, Caller("far", "abc"), "it is for our own cluster alone", id="one of our own, in another cluster"),
    ],
)
def test_a_hook_is_registered_only_where_it_is_meant_for(elsewhere: bool, caller: Caller | None, problem: str) -> None:
    with pytest.raises(ValueError, match=f"hook guard: {problem}"):
        Registration("ullage", (hook(elsewhere=elsewhere),), URL, caller=caller)


def test_in_a_cluster_the_api_server_goes_through_the_service() -> None:
    config = entry(hook(), ByService("ullage-system", "webhook"))["clientConfig"]

    assert config["service"] == {"namespace": "ullage-system", "name": "webhook", "port": 443, "path": "/hooks/guard"}
    assert "url" not in config


@pytest.mark.parametrize(
    ("address", "hosts"),
    [
        (URL, ("127.0.0.1",)),
        (ByUrl("https://[::1]:9443"), ("::1",)),
        (ByService("a", "b"), ("b.a.svc", "b.a.svc.cluster.local", "b.a")),
    ],
)
def test_the_certificate_is_for_the_name_that_the_api_server_calls(address: Address, hosts: tuple[str, ...]) -> None:
    assert address.hosts == hosts


def test_a_mutating_hook_says_whether_it_wants_to_be_asked_again() -> None:
    assert entry(hook(phase="mutate"))["reinvocationPolicy"] == "Never"
    assert entry(hook(phase="mutate", reinvoke=True))["reinvocationPolicy"] == "IfNeeded"
    assert "reinvocationPolicy" not in entry(hook())


def test_the_self_test_can_hold_nobody_up() -> None:
    found = entry(selftest_hook("ullage-system"))

    assert found["failurePolicy"] == "Ignore"
    assert found["sideEffects"] == "None"
    assert found["objectSelector"] == {"matchLabels": {"ullage.io/webhook-selftest": "true"}}
    assert found["namespaceSelector"]["matchExpressions"][0] | {"key": ""} == {
        "key": "",
        "operator": "In",
        "values": ["ullage-system"],
    }


BOTH = Registration("ullage", (hook(), hook(name="stamp", phase="mutate")), URL)


async def test_registering_twice_is_registering_once() -> None:
    api = FakeApi()
    for _ in range(2):
        await register(api.client, BOTH, bundle=b"one", seen=await read(api.client, BOTH))

    assert sorted(kind for kind, _ in api.objects) == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
    found = await read(api.client, BOTH)
    assert (found.bundle, found.missing) == (b"one", ())


async def test_a_bundle_that_was_read_too_early_does_not_overwrite_a_newer_one() -> None:
    api = FakeApi()
    await register(api.client, BOTH, bundle=b"old", seen=await read(api.client, BOTH))
    stalled = await read(api.client, BOTH)
    await register(api.client, BOTH, bundle=b"new", seen=await read(api.client, BOTH))

    for publish in (register, republish):
        with pytest.raises(Conflict):
            await publish(api.client, BOTH, bundle=b"old", seen=stalled)

    assert (await read(api.client, BOTH)).bundle == b"new"


async def test_what_somebody_has_deleted_is_not_published_again() -> None:
    api = FakeApi()
    await register(api.client, BOTH, bundle=b"old", seen=await read(api.client, BOTH))
    await api.delete(VALIDATING_WEBHOOKS, "ullage")
    seen = await read(api.client, BOTH)

    await republish(api.client, BOTH, bundle=b"new", seen=seen)

    assert seen.missing == ("guard.webhook.ullage.io",)
    assert ("ValidatingWebhookConfiguration", "ullage") not in api.objects
    assert (await read(api.client, BOTH)).bundle == b"new"


async def test_entries_that_do_not_agree_have_no_bundle_and_none_is_not_registered() -> None:
    api = FakeApi()
    assert (await read(api.client, BOTH)).bundle is None
    for name, bundle in (("guard", b"a"), ("stamp", b"b")):
        one = Registration("ullage", (hook(name=name, phase="mutate" if name == "stamp" else "validate"),), URL)
        kind = MUTATING_WEBHOOKS if name == "stamp" else VALIDATING_WEBHOOKS
        await api.patch(kind, "ullage", apply=one.configuration(kind, bundle) or {}, field_manager="m", force=True)

    assert (await read(api.client, BOTH)).bundle == b""


async def test_a_phase_without_hooks_is_taken_away() -> None:
    api = FakeApi()
    await register(api.client, BOTH, bundle=b"one", seen=await read(api.client, BOTH))
    fewer = Registration("ullage", (hook(),), URL)

    await register(api.client, fewer, bundle=b"one", seen=await read(api.client, fewer))

    assert list(api.objects) == [("ValidatingWebhookConfiguration", "ullage")]


async def test_a_phase_without_hooks_stays_where_somebody_else_has_an_entry_in_it() -> None:
    api = FakeApi()
    await register(api.client, BOTH, bundle=b"one", seen=await read(api.client, BOTH))
    foreign = {"name": "audit.example.com", "clientConfig": {"url": "https://audit.example.com/"}}
    api.objects["MutatingWebhookConfiguration", "ullage"]["webhooks"].append(foreign)
    fewer = Registration("ullage", (hook(),), URL)

    seen = await read(api.client, fewer)
    await register(api.client, fewer, bundle=b"one", seen=seen)

    assert seen.foreign == ("audit.example.com", "stamp.webhook.ullage.io")
    assert api.objects["MutatingWebhookConfiguration", "ullage"]["webhooks"] == [foreign]
    assert (await read(api.client, fewer)).bundle == b"one", "what others have there has bundles of its own"


async def test_a_configuration_without_any_entry_of_ours_is_not_filled_again() -> None:
    api = FakeApi()
    await register(api.client, BOTH, bundle=b"one", seen=await read(api.client, BOTH))
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        api.objects[kind, "ullage"]["webhooks"].clear()

    seen = await read(api.client, BOTH)

    assert (seen.bundle, seen.missing) == (None, ("guard.webhook.ullage.io", "stamp.webhook.ullage.io"))
