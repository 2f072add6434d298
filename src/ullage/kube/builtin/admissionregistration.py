"""admissionregistration.k8s.io: webhook configurations, as far as they are read back. They are written by apply alone."""

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


MUTATING_WEBHOOKS: Final = _kind("MutatingWebhookConfiguration", "mutatingwebhookconfigurations")
VALIDATING_WEBHOOKS: Final = _kind("ValidatingWebhookConfiguration", "validatingwebhookconfigurations")
