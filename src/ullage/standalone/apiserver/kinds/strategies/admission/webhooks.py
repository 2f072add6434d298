"""Configurations of admission webhooks: their defaults, and what makes one unusable."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from ullage.selectors import key_faults
from ullage.standalone.apiserver.kinds.metadata import subdomain
from ullage.standalone.apiserver.kinds.strategies.base import (
    PORT_RANGE,
    Check,
    Faults,
    Strategy,
    collect,
    fill,
    items,
    label_selector,
    one_of,
    part,
)
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import duplicate, invalid_value, not_supported, required

GROUP = "admissionregistration.k8s.io"
WEBHOOK: Json = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
}
OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
FORMAT = "desired format: https://host[/path]"


def _default(*, mutating: bool) -> Any:
    defaults = {**WEBHOOK, "reinvocationPolicy": "Never"} if mutating else WEBHOOK

    def apply(obj: Json) -> None:
        for webhook in items(obj, "webhooks"):
            fill(webhook, defaults)
            if isinstance(service := part(webhook, "clientConfig").get("service"), dict):
                fill(service, {"port": 443})
            for rule in items(webhook, "rules"):
                fill(rule, {"scope": "*"})

    return apply


def _faults(*, mutating: bool) -> Check:
    def check(obj: Json) -> Faults:
        seen: set[str] = set()
        for index, webhook in enumerate(items(obj, "webhooks")):
            path, name = f"webhooks[{index}]", webhook.get("name") or ""
            yield from _webhook_faults(webhook, path)
            if mutating:
                policy = webhook.get("reinvocationPolicy")
                yield from one_of(f"{path}.reinvocationPolicy", policy, ("IfNeeded", "Never"))
            if name in seen:
                yield duplicate(f"{path}.name", name)
            seen.add(name)

    return check


def _webhook_faults(webhook: Json, path: str) -> Faults:
    yield from _name_faults(webhook.get("name") or "", f"{path}.name")
    for index, rule in enumerate(items(webhook, "rules")):
        yield from rule_faults(rule, f"{path}.rules[{index}]")
    yield from one_of(f"{path}.failurePolicy", webhook.get("failurePolicy"), ("Fail", "Ignore"))
    yield from one_of(f"{path}.matchPolicy", webhook.get("matchPolicy"), ("Equivalent", "Exact"))
    effects = webhook.get("sideEffects")
    if effects is None:
        yield required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
    yield from one_of(f"{path}.sideEffects", effects, ("None", "NoneOnDryRun"))
    seconds = webhook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        yield invalid_value(f"{path}.timeoutSeconds", seconds, "the timeout value must be between 1 and 30 seconds")
    for field in ("namespaceSelector", "objectSelector"):
        yield from label_selector(f"{path}.{field}", webhook.get(field))
    yield from client_faults(part(webhook, "clientConfig"), f"{path}.clientConfig")
    yield from _version_faults(items(webhook, "admissionReviewVersions"), f"{path}.admissionReviewVersions")
    yield from condition_faults(items(webhook, "matchConditions"), f"{path}.matchConditions")


def _name_faults(name: str, path: str) -> Faults:
    """A domain of at least three parts: names of different makers never meet."""
    if not name:
        yield required(path)
    elif faults := subdomain(name):
        yield from (invalid_value(path, name, fault) for fault in faults)
    elif name.count(".") < 2:
        yield invalid_value(path, name, "should be a domain with at least three segments separated by dots")


def rule_faults(rule: Json, path: str) -> Faults:
    operations = items(rule, "operations")
    if not operations:
        yield required(f"{path}.operations")
    if "*" in operations and len(operations) > 1:
        yield invalid_value(f"{path}.operations", operations, "if '*' is present, must not specify other operations")
    for index, operation in enumerate(operations):
        if operation not in OPERATIONS:
            yield not_supported(f"{path}.operations[{index}]", operation, OPERATIONS)
    for field, called in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values = items(rule, field)
        if not values:
            yield required(f"{path}.{field}")
        if "*" in values and len(values) > 1:
            yield invalid_value(f"{path}.{field}", values, f"if '*' is present, must not specify other {called}")
        if field == "apiVersions":
            yield from (required(f"{path}.{field}[{index}]") for index, value in enumerate(values) if not value)
    yield from _resource_faults(items(rule, "resources"), f"{path}.resources")
    yield from one_of(f"{path}.scope", rule.get("scope"), ("*", "Cluster", "Namespaced"))


def _resource_faults(resources: list[str], path: str) -> Faults:
    if not resources:
        yield required(path)
    if "*/*" in resources and len(resources) > 1:
        yield invalid_value(path, resources, "if '*/*' is present, must not specify other resources")
    if "*" in resources and any("/" not in name and name != "*" for name in resources):
        yield invalid_value(path, resources, "if '*' is present, must not specify other resources without subresources")
    for index, name in enumerate(resources):
        if not name:
            yield required(f"{path}[{index}]")


def client_faults(config: Json, path: str) -> Faults:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from _url_faults(url, f"{path}.url")
    elif service is not None:
        yield from _service_faults(service, f"{path}.service")


def _url_faults(url: str, path: str) -> Faults:
    try:
        parts = urlsplit(url)
        _ = parts.port  # read for its check
    except ValueError:
        port = url.rpartition(":")[2].partition("/")[0]
        yield required(path, f'url must be a valid URL: parse "{url}": invalid port ":{port}" after host; {FORMAT}')
        return
    if parts.scheme != "https":
        yield invalid_value(path, parts.scheme, f"'https' is the only allowed URL scheme; {FORMAT}")
    user, _, host = parts.netloc.rpartition("@")
    if not host:
        yield invalid_value(path, "", f"host must be specified; {FORMAT}")
    if user:
        yield invalid_value(path, user, "user information is not permitted in the URL")
    if parts.fragment:
        yield invalid_value(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield invalid_value(path, parts.query, "query parameters are not permitted in the URL")


def _service_faults(service: Json, path: str) -> Faults:
    yield from (required(f"{path}.{key}") for key in ("name", "namespace") if not service.get(key))
    port = service.get("port")
    if port is not None and not 0 < port < 65536:
        yield invalid_value(f"{path}.port", port, f"port is not valid: {PORT_RANGE}")
    where = service.get("path")
    if where is None or where == "/":
        return
    if not where.startswith("/"):
        yield invalid_value(f"{path}.path", where, "must start with a '/'")
    segments = where[1:].removesuffix("/").split("/")
    for index, segment in enumerate(segments):
        if not segment:
            yield invalid_value(f"{path}.path", where, f"segment[{index}] may not be empty")


def _version_faults(versions: list[str], path: str) -> Faults:
    if not versions:
        yield required(path, "must specify one of v1, v1beta1")
        return
    for index, version in enumerate(versions):
        if version in versions[:index]:
            yield invalid_value(f"{path}[{index}]", version, "duplicate version")
    if not {"v1", "v1beta1"} & set(versions):
        yield invalid_value(path, versions, "must include at least one of v1, v1beta1")


def condition_faults(conditions: list[Json], path: str) -> Faults:
    """Names only: whether an expression compiles is said where expressions are compiled."""
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        place, name = f"{path}[{index}]", condition.get("name") or ""
        if not condition.get("expression"):
            yield required(f"{place}.expression")
        if not name:
            yield required(f"{place}.name")
        else:
            yield from (invalid_value(f"{place}.name", name, fault) for fault in key_faults(name))
        if name in seen:
            yield duplicate(f"{place}.name", name)
        seen.add(name)


STRATEGIES = {
    (GROUP, "ValidatingWebhookConfiguration"): Strategy(
        generation=True, default=_default(mutating=False), validate=collect(_faults(mutating=False))
    ),
    (GROUP, "MutatingWebhookConfiguration"): Strategy(
        generation=True, default=_default(mutating=True), validate=collect(_faults(mutating=True))
    ),
}
