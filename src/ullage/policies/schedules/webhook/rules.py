"""What a schedule may be, beyond what its schema says: each fault with its field. Pure, but for the names of time zones."""

from __future__ import annotations

from typing import Final

import msgspec

from ullage.errors import BadInput
from ullage.kube.errors import Cause
from ullage.names import is_subdomain
from ullage.policies.cut_hooks.api import problem_of_hooks
from ullage.policies.schedules.api import MOST_LABELS, MOST_TERMS, MOST_VALUES, ScheduleSpec
from ullage.policies.schedules.cron import read_timetable
from ullage.policies.schedules.model import is_own_label
from ullage.policies.schedules.retention import read_limits
from ullage.selectors import LabelSelector, SelectorError, key_faults, value_faults

HOOKS_FIELD: Final = "spec.hooks"


def faults(spec: ScheduleSpec) -> list[Cause]:
    found: list[Cause] = []
    try:
        read_timetable(spec.schedule, spec.time_zone)
    except BadInput as error:
        found.append(_cause(error.where, f"{error.given}: {error.problem}"))
    try:
        read_limits(spec.retention)
    except BadInput as error:
        found.append(_cause(error.where, f"{error.given}: {error.problem}"))
    if spec.hooks and (problem := problem_of_hooks(spec.hooks)):
        found.append(_cause(HOOKS_FIELD, problem))
    return [*found, *_selector_faults(spec), *_label_faults(spec), *_name_faults(spec)]


def _cause(field: str, message: str) -> Cause:
    return Cause(field=field, reason="FieldValueInvalid", message=message)


def _selector_faults(spec: ScheduleSpec) -> list[Cause]:
    selector = spec.claim_selector
    field = "spec.claimSelector"
    if len(selector.match_labels) > MOST_LABELS or len(selector.match_expressions) > MOST_TERMS:
        return [_cause(field, f"it has too many conditions; {MOST_LABELS} labels and {MOST_TERMS} expressions are allowed")]
    if any(len(one.values) > MOST_VALUES for one in selector.match_expressions):
        return [_cause(f"{field}.matchExpressions", f"one has more than {MOST_VALUES} values")]
    for key, value in selector.match_labels.items():
        if problems := [*key_faults(key), *value_faults(value)]:
            return [_cause(f"{field}.matchLabels", f"{key!r}: {problems[0]}")]
    try:
        LabelSelector.of(msgspec.to_builtins(selector))
    except SelectorError as error:
        return [_cause(f"{field}.matchExpressions", str(error))]
    return []


def _label_faults(spec: ScheduleSpec) -> list[Cause]:
    field, labels = "spec.template.labels", spec.template.labels
    if len(labels) > MOST_LABELS:
        return [_cause(field, f"{len(labels)} labels; {MOST_LABELS} are allowed")]
    for key, value in labels.items():
        if is_own_label(key):
            return [_cause(field, f"{key!r}: labels of ullage.io are written by Ullage alone; take another prefix")]
        if problems := [*key_faults(key), *value_faults(value)]:
            return [_cause(field, f"{key!r}: {problems[0]}")]
    return []


def _name_faults(spec: ScheduleSpec) -> list[Cause]:
    found = []
    if spec.group and (problems := value_faults(spec.group)):
        found.append(_cause("spec.group", f"{spec.group[:70]!r}: {problems[0]}"))
    if spec.snapshot_class_name and not is_subdomain(spec.snapshot_class_name):
        found.append(_cause("spec.snapshotClassName", f"{spec.snapshot_class_name[:70]!r} cannot be the name of a class"))
    return found
