"""Job and CronJob. A job's selector is its own uid, written into its pods, so that no two jobs can share pods."""

from __future__ import annotations

import re
from collections.abc import Mapping
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ullage.selectors import LabelSelector, SelectorError
from ullage.standalone.apiserver.kinds.metadata import IMMUTABLE, short_subdomain
from ullage.standalone.apiserver.kinds.strategies.base import (
    Faults,
    Strategy,
    at_least,
    collect,
    collect_update,
    fill,
    immutable,
    in_order,
    items,
    label_selector,
    one_of,
    part,
    spec_of,
)
from ullage.standalone.apiserver.kinds.strategies.workloads.apps import MISMATCH
from ullage.standalone.apiserver.kinds.strategies.workloads.pod_checks import template_faults
from ullage.standalone.apiserver.kinds.strategies.workloads.pod_defaults import default_template
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import invalid_value, required

# The syntax of a CronJob's schedule: five fields or a descriptor, with the server's words for what is wrong.


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
MONTHS = {name: at for at, name in enumerate(_MONTHS, start=1)}
DAYS = {name: at for at, name in enumerate(_DAYS)}
FIELDS: tuple[tuple[int, int, Mapping[str, int]], ...] = ((0, 59, {}), (0, 23, {}), (1, 31, {}), (1, 12, MONTHS), (0, 6, DAYS))
DESCRIPTORS = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_DURATION = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))*+|0")


def schedule_fault(schedule: str) -> str | None:
    """The first thing that is wrong, or None."""
    if "TZ" in schedule:
        return "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
    if schedule.startswith("@"):
        return _descriptor_fault(schedule)
    fields = schedule.split()
    if len(fields) != 5:
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
    try:
        for text, (low, high, names) in zip(fields, FIELDS, strict=True):
            for term in text.split(","):
                _check_term(term, low, high, names=names)
    except ValueError as error:
        return str(error)
    return None


def _descriptor_fault(schedule: str) -> str | None:
    if schedule in DESCRIPTORS:
        return None
    if schedule.startswith("@every "):
        text = schedule.removeprefix("@every ")
        return None if _DURATION.fullmatch(text) else f'failed to parse duration {schedule}: time: invalid duration "{text}"'
    return f"unrecognized descriptor: {schedule}"


def _check_term(term: str, low: int, high: int, *, names: Mapping[str, int]) -> None:
    """`*`, `5`, `1-5`, each perhaps with `/step`."""
    span, *steps = term.split("/")
    if len(steps) > 1:
        raise ValueError(f"too many slashes: {term}")
    start, *ends = span.split("-")
    if len(ends) > 1:
        raise ValueError(f"too many hyphens: {term}")
    if start in ("*", "?"):
        first, last = low, high
    else:
        first = _number(start, names)
        last = _number(ends[0], names) if ends else first
    step = _number(steps[0], {}) if steps else 1
    if steps and not ends:
        last = high
    if first < low:
        raise ValueError(f"beginning of range ({first}) below minimum ({low}): {term}")
    if last > high:
        raise ValueError(f"end of range ({last}) above maximum ({high}): {term}")
    if first > last:
        raise ValueError(f"beginning of range ({first}) beyond end of range ({last}): {term}")
    if step == 0:
        raise ValueError(f"step of range should be a positive number: {term}")


def _number(text: str, names: Mapping[str, int]) -> int:
    if (known := names.get(text.lower())) is not None:
        return known
    if not re.fullmatch("[0-9]+", text):
        raise ValueError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    return int(text)


def time_zone_fault(name: str) -> str | None:
    if not name:
        return "timeZone must be nil or non-empty string"
    if name.lower() == "local":
        return "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return f"unknown time zone {name}"
    return None


UID_LABEL = "batch.kubernetes.io/controller-uid"
NAME_LABEL = "batch.kubernetes.io/job-name"
OLD_UID_LABEL, OLD_NAME_LABEL = "controller-uid", "job-name"
ALL_ATTEMPTS = 2**31 - 1
COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
)
BATCH = "batch"


def _default(obj: Json) -> None:
    spec = spec_of(obj)
    if not isinstance(template := spec.get("template"), dict):
        template = spec["template"] = {}
    default_template(template)
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = spec["parallelism"] = 1
    # A limit for each index makes the limit for all of them meaningless.
    attempts = 6 if spec.get("backoffLimitPerIndex") is None else ALL_ATTEMPTS
    replacement = "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed"
    fill(
        spec,
        {
            "parallelism": 1,
            "backoffLimit": attempts,
            "completionMode": "NonIndexed",
            "suspend": False,
            "manualSelector": False,
            "podReplacementPolicy": replacement,
        },
    )
    for rule in items(spec, "podFailurePolicy", "rules"):
        for condition in items(rule, "onPodConditions"):
            fill(condition, {"status": "True"})


def _create(obj: Json) -> None:
    fill(obj, {"status": {}})
    spec, meta = spec_of(obj), obj["metadata"]
    if spec.get("manualSelector"):
        return
    uid, name = meta.get("uid", ""), meta.get("name", "")
    labels = {UID_LABEL: uid, NAME_LABEL: name, OLD_UID_LABEL: uid, OLD_NAME_LABEL: name}
    fill(spec["template"], {"metadata": {"labels": labels}})
    fill(spec, {"selector": {"matchLabels": {UID_LABEL: uid}}})
    # A job shows the labels of its pods where it has none of its own.
    if not meta.get("labels"):
        meta["labels"] = dict(spec["template"]["metadata"]["labels"])


def job_spec_faults(spec: Json, path: str) -> Faults:
    for field in COUNTS:
        yield from at_least(f"{path}.{field}", spec.get(field))
    mode = spec.get("completionMode")
    yield from one_of(f"{path}.completionMode", mode, ("NonIndexed", "Indexed"))
    if mode == "Indexed" and spec.get("completions") is None:
        yield required(f"{path}.completions", "when completion mode is Indexed")
    if (limit := spec.get("backoffLimitPerIndex")) is not None and mode != "Indexed":
        yield invalid_value(f"{path}.backoffLimitPerIndex", limit, "requires indexed completion mode")
    template = part(spec, "template")
    yield from template_faults(template, f"{path}.template")
    if part(template, "spec").get("restartPolicy") not in ("OnFailure", "Never"):
        yield required(f"{path}.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')


def _faults(obj: Json) -> Faults:
    spec, meta = part(obj, "spec"), obj["metadata"]
    labels = part(spec, "template", "metadata").get("labels")
    selector = spec.get("selector")
    if selector is None:
        yield required("spec.selector")
    else:
        yield from label_selector("spec.selector", selector)
    if not spec.get("manualSelector"):
        yield from _generated_faults(selector or {}, labels or {}, meta)
    try:
        parsed = LabelSelector.of(selector)
    except SelectorError:
        parsed = None  # its faults are told above
    if parsed is not None and not parsed.matches(labels):
        yield invalid_value("spec.template.metadata.labels", in_order(labels), MISMATCH)
    yield from job_spec_faults(spec, "spec")


def _generated_faults(selector: Json, labels: Json, meta: Json) -> Faults:
    """Only the selector that the server makes is taken, unless `manualSelector` says otherwise."""
    uid, name = meta.get("uid", ""), meta.get("name", "")
    for key, value in ((UID_LABEL, uid), (OLD_UID_LABEL, uid), (NAME_LABEL, name), (OLD_NAME_LABEL, name)):
        if key in labels and labels[key] != value:
            yield invalid_value(f"spec.template.metadata.labels[{key}]", in_order(labels), f"must be '{value}'")
    if selector not in ({"matchLabels": {UID_LABEL: uid}}, {"matchLabels": {OLD_UID_LABEL: uid}}):
        yield invalid_value("spec.selector", selector, "`selector` not auto-generated")


def _update_faults(new: Json, old: Json) -> Faults:
    after, before = part(new, "spec"), part(old, "spec")
    if after.get("completions") != before.get("completions") and not _elastic(after):
        yield invalid_value("spec.completions", after.get("completions"), IMMUTABLE)
    yield from immutable("spec.selector")(new, old)
    suspended = before.get("suspend") and not part(old, "status").get("startTime")
    if not suspended and part(after, "template") != part(before, "template"):
        yield invalid_value("spec.template", part(after, "template"), IMMUTABLE)
    yield from immutable("spec.completionMode", "spec.podFailurePolicy", "spec.backoffLimitPerIndex")(new, old)


def _elastic(spec: Json) -> bool:
    """Indexed jobs may grow and shrink when both numbers move together."""
    return spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")


CRON_DEFAULTS: Json = {
    "concurrencyPolicy": "Allow",
    "suspend": False,
    "successfulJobsHistoryLimit": 3,
    "failedJobsHistoryLimit": 1,
    "jobTemplate": {"metadata": {}, "spec": {"template": {}}},
}


def _cron_default(obj: Json) -> None:
    spec = spec_of(obj)
    fill(spec, CRON_DEFAULTS)
    default_template(spec["jobTemplate"]["spec"]["template"])


def _cron_faults(obj: Json) -> Faults:
    spec = part(obj, "spec")
    schedule = spec.get("schedule") or ""
    if not schedule:
        yield required("spec.schedule")
    elif fault := schedule_fault(schedule):
        yield invalid_value("spec.schedule", schedule, fault)
    yield from at_least("spec.startingDeadlineSeconds", spec.get("startingDeadlineSeconds"))
    yield from one_of("spec.concurrencyPolicy", spec.get("concurrencyPolicy"), ("Allow", "Forbid", "Replace"))
    zone = spec.get("timeZone")
    if zone is not None and (fault := time_zone_fault(zone)):
        yield invalid_value("spec.timeZone", zone, fault)
    for field in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        yield from at_least(f"spec.{field}", spec.get(field))
    job = part(spec, "jobTemplate", "spec")
    if job.get("selector"):
        yield invalid_value("spec.jobTemplate.spec.selector", job["selector"], "`selector` will be auto-generated")
    yield from job_spec_faults(job, "spec.jobTemplate.spec")


STRATEGIES = {
    (BATCH, "Job"): Strategy(
        generation=True,
        unstored_status=True,
        default=_default,
        prepare_create=_create,
        validate=collect(_faults),
        validate_update=collect_update(_update_faults),
    ),
    (BATCH, "CronJob"): Strategy(
        name_rule=short_subdomain(52),
        generation=True,
        unstored_status=True,
        default=_cron_default,
        prepare_create=lambda obj: fill(obj, {"status": {}}),
        validate=collect(_cron_faults),
    ),
}
