"""admissionregistration.k8s.io: webhook configurations, as far as they are read back, and policies. Both are applied."""

from __future__ import annotations

from typing import Final

from ullage.kube.kinds import Kind, Object
from ullage.kube.objects import Json


class WebhookConfiguration(Object):
    webhooks: tuple[Json, ...] = ()  # as they are written: whoever compares them must see every field


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
