"""How KubeVirt moves instances between nodes: `spec.configuration.migrations` of the KubeVirt object. Pure.

What is not set there has KubeVirt's own default. What is set and makes no sense is not obeyed: the default holds in its place,
and whoever looks is told. A person who sets it is refused before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ullage.errors import BadInput
from ullage.quantity import Quantity, QuantityError
from ullage.vms.api.kubevirts import KubeVirt

WHERE: Final = "spec.configuration.migrations"
DRAIN_TAINT: Final = "kubevirt.io/drain"
GI: Final = 1 << 30
LARGEST: Final = (1 << 31) - 1
RESET: Final = "default"  # the word for "as KubeVirt has it"

Given = Mapping[str, Any]  # as the object has them


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationSettings:
    """As it is obeyed."""

    per_cluster: int = 5
    per_node: int = 2  # leaving it
    bandwidth: int = 0  # bytes a second, of each; 0: as fast as it goes
    completion_timeout: int = 150  # seconds for each GiB of memory; 0: never
    progress_timeout: int = 150  # seconds without progress; 0: never
    auto_converge: bool = False
    post_copy: bool = False
    drain_taint: str = DRAIN_TAINT

    def deadline(self, memory: int) -> int:
        """The seconds in which so much memory has to be moved; a GiB that was begun counts whole. 0: whenever."""
        return self.completion_timeout * max(1, -(-memory // GI))


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One field: what it is called, what it may be, and how it reads."""

    field: str
    allowed: str
    meaning: str
    read: Callable[[Any], Any]  # raises ValueError for what it may not be
    shown: Callable[[Any], str]
    default: Any

    def value(self, given: Any, *, where: str = "") -> Any:
        try:
            return self.read(given)
        except (ValueError, QuantityError) as error:
            spelled = "(empty)" if given == "" else given
            raise BadInput(where or f"{WHERE}.{self.field}", spelled, f"{self.allowed} is allowed") from error


def _number(given: Any, *, least: int) -> int:
    text = str(given) if not isinstance(given, bool) else ""
    if not text.isascii() or not text.isdecimal() or not least <= int(text[:12]) <= LARGEST:
        raise ValueError(text)
    return int(text)


def _at_least_one(given: Any) -> int:
    return _number(given, least=1)


def _seconds(given: Any) -> int:
    return _number(given.removesuffix("s") if isinstance(given, str) else given, least=0)


def _bytes(given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, str | int):
        raise ValueError(given)
    found = Quantity.parse(str(given))
    if found.sign < 0 or found.value() >= 1 << 63:
        raise ValueError(given)
    return found.value()


def _switch(given: Any) -> bool:
    if isinstance(given, bool):
        return given
    if given not in ("true", "false"):
        raise ValueError(given)
    return bool(given == "true")


def _rate(count: int) -> str:
    if not count:
        return "no bound"
    for unit, size in (("Gi", GI), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if count % size == 0:
            return f"{count // size}{unit}/s"
    return f"{count} bytes/s"


def _span(seconds: int) -> str:
    return f"{seconds}s" if seconds else "never"


COUNT: Final = f"a whole number from 1 to {LARGEST}"
SPAN: Final = f"a whole number of seconds up to {LARGEST}, 0 for never,"
SWITCH: Final = "true or false"

SETTINGS: Final[tuple[Setting, ...]] = (
    Setting(
        field="parallelMigrationsPerCluster",
        allowed=COUNT,
        meaning="so many go on at a time, in the whole cluster",
        read=_at_least_one,
        shown=str,
        default=5,
    ),
    Setting(
        field="parallelOutboundMigrationsPerNode",
        allowed=COUNT,
        meaning="so many leave one node at a time",
        read=_at_least_one,
        shown=str,
        default=2,
    ),
    Setting(
        field="bandwidthPerMigration",
        allowed="an amount for each second, such as 64Mi, or 0 for no bound,",
        meaning="of the network, for each of them",
        read=_bytes,
        shown=_rate,
        default=0,
    ),
    Setting(
        field="completionTimeoutPerGiB",
        allowed=SPAN,
        meaning="given up after so long for each GiB of memory",
        read=_seconds,
        shown=_span,
        default=150,
    ),
    Setting(
        field="progressTimeout",
        allowed=SPAN,
        meaning="given up after so long without progress",
        read=_seconds,
        shown=_span,
        default=150,
    ),
    Setting(
        field="allowAutoConverge",
        allowed=SWITCH,
        meaning="a guest that writes faster than is copied is slowed down",
        read=_switch,
        shown=lambda on: str(on).lower(),
        default=False,
    ),
    Setting(
        field="allowPostCopy",
        allowed=SWITCH,
        meaning="instead of giving up, it runs on the new node before all is copied",
        read=_switch,
        shown=lambda on: str(on).lower(),
        default=False,
    ),
)
BY_FIELD: Final[Mapping[str, Setting]] = {one.field: one for one in SETTINGS}


def written(setting: Setting, given: str, *, where: str) -> Any:
    """What stands in the object for what a person gave; None: nothing, so that the default holds."""
    if given == RESET:
        return None
    value = setting.value(given, where=where)
    return given if setting.field == "bandwidthPerMigration" else value


def given_in(kubevirt: KubeVirt | None) -> Given:
    """What the KubeVirt object has, under the names of its fields."""
    found = kubevirt.spec.configuration.migrations if kubevirt is not None else None
    return {} if found is None else msgspec.to_builtins(found)


def values_of(given: Given) -> tuple[dict[str, Any], list[str]]:
    """Each by its field, and what is wrong with those that are not obeyed."""
    values, problems = {}, []
    for one in SETTINGS:
        values[one.field] = one.default
        if given.get(one.field) is not None:
            try:
                values[one.field] = one.value(given[one.field])
            except BadInput as error:
                problems.append(f"{error}; {one.shown(one.default)} holds")
    return values, problems


def obeyed(given: Given) -> MigrationSettings:
    values, _ = values_of(given)
    taint = given.get("nodeDrainTaintKey")
    return MigrationSettings(
        per_cluster=values["parallelMigrationsPerCluster"],
        per_node=values["parallelOutboundMigrationsPerNode"],
        bandwidth=values["bandwidthPerMigration"],
        completion_timeout=values["completionTimeoutPerGiB"],
        progress_timeout=values["progressTimeout"],
        auto_converge=values["allowAutoConverge"],
        post_copy=values["allowPostCopy"],
        drain_taint=taint if isinstance(taint, str) and taint else DRAIN_TAINT,
    )
