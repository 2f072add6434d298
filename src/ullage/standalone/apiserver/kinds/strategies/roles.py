"""Roles and their bindings. Their names are free: people put colons into them."""

from __future__ import annotations

from ullage.standalone.apiserver.kinds.metadata import path_segment, subdomain
from ullage.standalone.apiserver.kinds.strategies.base import (
    Check,
    Faults,
    Strategy,
    collect,
    collect_update,
    fill,
    items,
    label_selector,
    part,
)
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import invalid_value, not_supported, required

GROUP = "rbac.authorization.k8s.io"
SUBJECTS = ("ServiceAccount", "User", "Group")


def _binding_default(obj: Json) -> None:
    for subject in items(obj, "subjects"):
        if subject.get("kind") in ("User", "Group"):
            fill(subject, {"apiGroup": GROUP})
    fill(obj, {"roleRef": {"apiGroup": GROUP}})


def _rule_faults(rule: Json, path: str, *, namespaced: bool) -> Faults:
    if not rule.get("verbs"):
        yield required(f"{path}.verbs", "verbs must contain at least one value")
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            yield invalid_value(f"{path}.nonResourceURLs", urls, "namespaced rules cannot apply to non-resource URLs")
        elif rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            yield invalid_value(f"{path}.nonResourceURLs", urls, detail)
        return
    if not rule.get("apiGroups"):
        yield required(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield required(f"{path}.resources", "resource rules must supply at least one resource")


def _rules_faults(*, namespaced: bool) -> Check:
    def check(obj: Json) -> Faults:
        for index, rule in enumerate(items(obj, "rules")):
            yield from _rule_faults(rule, f"rules[{index}]", namespaced=namespaced)
        if isinstance(aggregation := obj.get("aggregationRule"), dict):
            selectors = items(aggregation, "clusterRoleSelectors")
            path = "aggregationRule.clusterRoleSelectors"
            if not selectors:
                yield required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil")
            for index, selector in enumerate(selectors):
                yield from label_selector(f"{path}[{index}]", selector)

    return check


def _binding_faults(*kinds: str) -> Check:
    def check(obj: Json) -> Faults:
        reference = part(obj, "roleRef")
        if reference.get("apiGroup") != GROUP:
            yield not_supported("roleRef.apiGroup", reference.get("apiGroup", ""), (GROUP,))
        if reference.get("kind") not in kinds:
            yield not_supported("roleRef.kind", reference.get("kind", ""), kinds)
        if not (name := reference.get("name")):
            yield required("roleRef.name")
        else:
            yield from (invalid_value("roleRef.name", name, fault) for fault in path_segment(name))
        for index, subject in enumerate(items(obj, "subjects")):
            yield from _subject_faults(subject, f"subjects[{index}]", namespaced="Role" in kinds)

    return check


def _subject_faults(subject: Json, path: str, *, namespaced: bool) -> Faults:
    kind, name, group = subject.get("kind") or "", subject.get("name") or "", subject.get("apiGroup") or ""
    if not name:
        yield required(f"{path}.name")
    if kind == "ServiceAccount":
        if name:
            yield from (invalid_value(f"{path}.name", name, fault) for fault in subdomain(name))
        if group:
            yield not_supported(f"{path}.apiGroup", group, ("",))
        if not namespaced and not subject.get("namespace"):
            yield required(f"{path}.namespace")
    elif kind in ("User", "Group"):
        if group != GROUP:
            yield not_supported(f"{path}.apiGroup", group, (GROUP,))
    else:
        yield not_supported(f"{path}.kind", kind, SUBJECTS)


def _reference_fixed(new: Json, old: Json) -> Faults:
    """Another role is another binding: who may hand out what was checked for this one."""
    if part(new, "roleRef") != part(old, "roleRef"):
        reference = part(new, "roleRef")
        shown = {"APIGroup": reference.get("apiGroup"), "Kind": reference.get("kind"), "Name": reference.get("name")}
        yield invalid_value("roleRef", shown, "cannot change roleRef")


STRATEGIES = {
    (GROUP, "Role"): Strategy(name_rule=path_segment, validate=collect(_rules_faults(namespaced=True))),
    (GROUP, "ClusterRole"): Strategy(name_rule=path_segment, validate=collect(_rules_faults(namespaced=False))),
    (GROUP, "RoleBinding"): Strategy(
        name_rule=path_segment,
        default=_binding_default,
        validate=collect(_binding_faults("Role", "ClusterRole")),
        validate_update=collect_update(_reference_fixed),
    ),
    (GROUP, "ClusterRoleBinding"): Strategy(
        name_rule=path_segment,
        default=_binding_default,
        validate=collect(_binding_faults("ClusterRole")),
        validate_update=collect_update(_reference_fixed),
    ),
}
