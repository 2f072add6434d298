"""What differs between hooks as they are registered in a cluster and as they are to be, and the patch that ends that. Pure.

Entries are compared whole, as they were sent: whoever administers a cluster can add a condition that is never true, or a
selector that fits nothing, and one field that is overlooked switches a hook off. That a field is absent, null or empty is the
same to an API server; all else that it would fill in our entries say themselves.

What is wrong is replaced and not applied. An apply leaves what somebody else has added to an entry, and is refused altogether
where a service of his stands beside our URL.
"""

from __future__ import annotations

from typing import Any

from ullage.admission.registration import BUNDLE, is_ours
from ullage.kube.builtin.admissionregistration import WebhookConfiguration
from ullage.kube.objects import Json


def edits(found: WebhookConfiguration, wanted: Json) -> list[str]:
    """What somebody has changed, with the names of the fields: what is in them may be secret. Entries that are missing are not
    among it. Neither is another bundle: replicas do not hear of a new authority at the same moment, and with a wrong one a
    hook is not passed by but fails."""
    entries = {entry.get("name"): entry for entry in found.webhooks}
    pairs = [(entries[entry["name"]], entry) for entry in wanted["webhooks"] if entry["name"] in entries]
    told = [f"{entry['name']} ({', '.join(fields)})" for there, entry in pairs if (fields := _differing(there, entry))]
    if not _labelled(found, wanted):
        told.append(f"{wanted['kind']} {wanted['metadata']['name']} (metadata.labels)")
    return told


def is_as_wanted(found: WebhookConfiguration, wanted: Json) -> bool:
    """Whether there is nothing to write."""
    ours = [entry for entry in found.webhooks if is_ours(entry.get("name", ""))]
    return _labelled(found, wanted) and _by_name(ours) == _by_name(wanted["webhooks"])


def entries_with(found: WebhookConfiguration, wanted: Json) -> list[Json]:
    """Our entries as they are to be, and those of others as they are. What another release of ours had goes."""
    return [*wanted["webhooks"], *(entry for entry in found.webhooks if not is_ours(entry.get("name", "")))]


def replacement(found: WebhookConfiguration, wanted: Json) -> list[Json]:
    """A JSON patch. It names no version: whoever writes all the time must not keep it from being taken."""
    patch: list[Json] = [{"op": "add", "path": "/webhooks", "value": entries_with(found, wanted)}]
    if not _labelled(found, wanted):
        labels = {**found.metadata.labels, **wanted["metadata"]["labels"]}
        patch.append({"op": "add", "path": "/metadata/labels", "value": labels})
    return patch


def _differing(there: Json, wanted: Json) -> list[str]:
    """The names of fields."""
    one, other = _meant(_without_bundle(there)), _meant(_without_bundle(wanted))
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))


def _without_bundle(entry: Json) -> Json:
    config = {name: value for name, value in (entry.get("clientConfig") or {}).items() if name != BUNDLE}
    return {**entry, "clientConfig": config}


def _labelled(found: WebhookConfiguration, wanted: Json) -> bool:
    return all(found.metadata.labels.get(name) == value for name, value in wanted["metadata"]["labels"].items())


def _by_name(entries: list[Json]) -> list[Any]:
    return sorted((_meant(entry) for entry in entries), key=lambda entry: str(entry.get("name")))


def _meant(value: Any) -> Any:
    """Without fields that say nothing. An empty text may: a label can have it as its value."""
    if isinstance(value, dict):
        meant = {name: _meant(item) for name, item in value.items()}
        return {name: item for name, item in meant.items() if item is not None and item != {} and item != []}
    return [_meant(item) for item in value] if isinstance(value, list) else value
