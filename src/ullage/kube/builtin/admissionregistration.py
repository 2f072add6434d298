"""admissionregistration.k8s.io: webhook configurations, as far as they are read back, and policies. Both are applied."""

from __future__ import annotations

from typing import Final

from ullage.kube.kinds import Kind, Object, Value


class WebhookClientConfig(Value):
    ca_bundle: str = ""
    url: str = ""


class RegisteredWebhook(Value):
    name: str
    client_config: WebhookClientConfig


class WebhookConfiguration(Object):
    webhooks: tuple[RegisteredWebhook, ...] = ()


def _kind(kind: str, plural: str) -> Kind[WebhookConfiguration]:
    return Kind(
        "admissionregistration.k8s.io", "v1", kind, plural, WebhookConfiguration, namespaced=False, whole=False, status=False
    )


def _policy_kind(kind: str, plural: str) -> Kind[Object]:
    return Kind("admissionregistration.k8s.io", "v1", kind, plural, Object, namespaced=False, whole=False, status=False)


POLICIES: Final = _policy_kind("ValidatingAdmissionPolicy", "validatingadmissionpolicies")
POLICY_BINDINGS: Final = _policy_kind("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings")
MUTATING_WEBHOOKS: Final = _kind("MutatingWebhookConfiguration", "mutatingwebhookconfigurations")
VALIDATING_WEBHOOKS: Final = _kind("ValidatingWebhookConfiguration", "validatingwebhookconfigurations")
