"""The hooks for quotas on the master. One puts back what only Ullage may write; the others refuse what is wrong with a quota,
warn of what its author may not know, and keep default quotas from being deleted.

The record of what is granted stands on the quota: whoever replaces the object from a file has not got it, and must not take it
away by that. A record that cannot be read may be taken away or mended by anybody, since nothing goes on until then. Nobody is
asked about a status, nor about what else people write on a quota: that passes while the webhook is away.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ullage.errors import BadInput
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.errors import Cause
from ullage.kube.identities import is_own
from ullage.kube.kinds import Kind, Meta
from ullage.kube.objects import Json, is_deleting
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.kube.slices import Wiring
from ullage.ledger.amounts import Amounts, BadAmount
from ullage.projects.api.kkp import PROJECTS, SETTINGS, KubermaticSetting, Project
from ullage.projects.api.quotas import PROJECT_QUOTAS, ResourceQuota
from ullage.projects.controllers.quota_default_rules import default_in, setting_faults
from ullage.projects.escrow.record import RECORDS, read_record, record_field
from ullage.projects.names import (
    DEFAULT_MARKS,
    MAX_CLUSTERS,
    SETTING,
    SUBJECT_KIND,
    SUBJECT_NAME,
    is_project_id,
)
from ullage.projects.quota import QuotaFault, amounts_of, is_counted
from ullage.projects.subjects import QuotaLookup, quota_lookup
from ullage.projects.webhook.quota_rules import QuotaFacts, deletion_refusal, refusals, unreachable, warnings

WATCHES: Final[tuple[Kind[Any], ...]] = (PROJECT_QUOTAS, PROJECTS, SETTINGS)
OURS: Final = "another webhook changes it, and only Ullage may: it is the record of what each seed may have"


# --- rules -----------------------------------------------------------------------------------------------------------


def kept_record(old: Meta | None, new: Meta, record: str) -> str | None:
    """The record that a quota is to have after somebody else than Ullage has written it; None: none. There are several."""
    had, given = None if old is None else old.annotations.get(record), new.annotations.get(record)
    if old is None or had is None or given == had:
        return had
    return given if not _is_readable(old, record) and _is_readable(new, record) else had


def _is_readable(meta: Meta, record: str) -> bool:
    try:
        read_record(meta, record)
    except BadInput:
        return False
    return True


def put_right(quota: ResourceQuota, old: Meta | None, whole: Json) -> Json:
    """The object with the records that it had, and the labels of its subject. `whole` is all of it, and stays as it is."""
    meta: Json = dict(whole.get("metadata") or {})
    for record in RECORDS:
        kept = kept_record(old, quota.metadata, record)
        if kept != quota.metadata.annotations.get(record):
            rest = {name: value for name, value in (meta.get("annotations") or {}).items() if name != record}
            meta["annotations"] = rest if kept is None else {**rest, record: kept}
    subject = quota.spec.subject
    if is_project_id(subject.name):
        meta["labels"] = {**(meta.get("labels") or {}), SUBJECT_NAME: subject.name, SUBJECT_KIND: subject.kind}
    return {**whole, "metadata": meta}


# --- the hooks -------------------------------------------------------------------------------------------------------


class QuotaHooks:
    """Answers admission requests for quotas."""

    def __init__(self, lookup: QuotaLookup, projects: Cache[Project], settings: Cache[KubermaticSetting]) -> None:
        self._lookup = lookup
        self._projects = projects
        self._settings = settings

    async def mutate(self, review: Review) -> Decision:
        if is_own(review):
            return Decision.allow()
        quota, old = review.object(PROJECT_QUOTAS), review.old(PROJECT_QUOTAS)
        whole = review.object_json()
        changed = put_right(quota, old.metadata if old is not None else None, whole)
        return Decision.allow() if changed == whole else review.change(whole, changed)

    async def validate(self, review: Review) -> Decision:
        if is_own(review):
            return Decision.allow()
        new, old = review.object(PROJECT_QUOTAS), review.old(PROJECT_QUOTAS)
        before = old.metadata if old is not None else None
        for record in RECORDS:
            if kept_record(before, new.metadata, record) != new.metadata.annotations.get(record):
                return _invalid([QuotaFault(record_field(record), OURS)])
        if is_deleting(new.metadata):
            return Decision.allow()
        facts = QuotaFacts(
            new=new,
            old=old,
            rivals=frozenset(one.metadata.name for one in self._lookup.of(new.spec.subject.name)),
            used=_used(old),
            default_configured=self._default_configured(),
            away=unreachable([old] if old is not None else self._lookup.quotas.items()),
        )
        if wrong := refusals(facts):
            return _invalid(wrong)
        return Decision.allow(warnings=warnings(facts))

    async def delete(self, review: Review) -> Decision:
        quota = review.old(PROJECT_QUOTAS)
        if is_own(review) or quota is None:
            return Decision.allow()
        project = self._projects.get(Key("", quota.spec.subject.name))
        refusal = deletion_refusal(quota, default_configured=self._default_configured(), project=project)
        return Decision.refuse(refusal) if refusal else Decision.allow()

    async def validate_setting(self, review: Review) -> Decision:
        """A fault that was stored before does not stop a change of other fields."""
        new, old = review.object(SETTINGS), review.old(SETTINGS)
        before = frozenset(setting_faults(old)) if old is not None else frozenset()
        wrong = [fault for fault in setting_faults(new) if fault not in before]
        return _invalid(wrong) if wrong and not is_deleting(new.metadata) else Decision.allow()

    def _default_configured(self) -> bool:
        found = default_in(self._settings.get(Key("", SETTING)))
        return found is not None and found.limits is not None

    def hooks(self) -> tuple[Hook, ...]:
        written = (Target.of(PROJECT_QUOTAS, "CREATE", "UPDATE"),)
        return (
            Hook(
                name="projects-quota-marks",
                phase="mutate",
                targets=written,
                answer=self.mutate,
                only_if=ONLY_IF,
                side_effects="None",
                reinvoke=True,
            ),
            Hook(
                name="projects-quota",
                phase="validate",
                targets=written,
                answer=self.validate,
                only_if=ONLY_IF,
                side_effects="None",
            ),
            Hook(
                name="projects-default-quota",
                phase="validate",
                targets=(Target.of(SETTINGS, "CREATE", "UPDATE"),),
                answer=self.validate_setting,
                only_if=ANOTHER_DEFAULT,
                side_effects="None",
            ),
            Hook(
                name="projects-quota-deletion",
                phase="validate",
                targets=(Target.of(PROJECT_QUOTAS, "DELETE"),),
                answer=self.delete,
                only_if=ONLY_DEFAULTS,
                side_effects="None",
            ),
        )


def _used(old: ResourceQuota | None) -> Amounts:
    """As the status says; a quota that is new has none, and what cannot be read warns of nothing."""
    if old is None or not is_counted(old.status.global_usage):
        return Amounts()
    try:
        return amounts_of(old.status.global_usage, field="status.globalUsage")
    except BadAmount:
        return Amounts()


def _invalid(wrong: list[QuotaFault]) -> Decision:
    causes = (Cause(one.field, "FieldValueInvalid", one.problem) for one in wrong)
    return Decision.invalid("; ".join(map(str, wrong)), *causes)


# --- which requests come here ----------------------------------------------------------------------------------------


def _value(of: str, where: str) -> str:
    return f"(has({of}.metadata.{where}) && mark in {of}.metadata.{where} ? {of}.metadata.{where}[mark] : '')"


def _differ(marks: list[str], where: str) -> str:
    return f"{marks!r}.exists(mark, {_value('object', where)} != {_value('oldObject', where)})"


ONLY_IF: Final[Mapping[str, str]] = {
    "another-limit": "oldObject == null || !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec"
    f" || {_differ([*RECORDS, MAX_CLUSTERS], 'annotations')}"
    f" || {_differ([SUBJECT_NAME, SUBJECT_KIND, *DEFAULT_MARKS], 'labels')}",
}
ANOTHER_DEFAULT: Final[Mapping[str, str]] = {
    "has-default": "has(object.spec) && has(object.spec.defaultQuota)",
    "another-default": "oldObject == null || !has(oldObject.spec) || !has(oldObject.spec.defaultQuota)"
    " || object.spec.defaultQuota != oldObject.spec.defaultQuota",
}
ONLY_DEFAULTS: Final[Mapping[str, str]] = {
    "default": f"oldObject != null && {list(DEFAULT_MARKS)!r}.all(mark, {_value('oldObject', 'labels')} == 'true')",
}


def make_hooks(wiring: Wiring) -> tuple[Hook, ...]:
    return QuotaHooks(wiring.shared(quota_lookup), wiring.cache(PROJECTS), wiring.cache(SETTINGS)).hooks()
