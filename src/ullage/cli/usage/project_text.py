"""How the usage of projects reads in a terminal, and for programs. Pure: the time is an argument."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from ullage.cli.common.listing import Table
from ullage.cli.common.project_quotas import Limits, of_limits, written_limits, written_usage
from ullage.cli.common.text import NONE, age, plain
from ullage.kube.objects import Json
from ullage.ledger.amounts import Amounts

ProjectGroup = Literal["project", "seed", "cluster"]

_AMOUNTS: Final = ("CPU", "MEMORY", "STORAGE")
_HEAD: Final[Mapping[ProjectGroup, tuple[str, ...]]] = {
    "project": ("PROJECT", *_AMOUNTS, "STALE"),
    "seed": ("PROJECT", "SEED", *_AMOUNTS, "STALE"),
    "cluster": ("PROJECT", "CLUSTER", *_AMOUNTS, "STALE"),
}
_WIDE: Final[Mapping[ProjectGroup, tuple[str, ...]]] = {
    "project": ("WITHIN", "STALE SEEDS"),
    "seed": ("SINCE",),
    "cluster": ("NAME", "PROVIDER", "PHASE"),
}
_NOTHING: Final[Mapping[ProjectGroup, str]] = {
    "project": "no project has a quota",
    "seed": "no seed has said what it uses of a quota",
    "cluster": "no cluster here belongs to a project",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectRow:
    """`used` is None where nobody has counted, `limits` where nobody says what they are. `more` is for wide tables."""

    project: str
    name: str = ""  # of the seed or the cluster
    used: Amounts | None = None
    limits: Limits | None = None
    stale_since: str = ""
    more: tuple[str, ...] = ()


def nothing(group: ProjectGroup, project: str, labels: str = "") -> str:
    """What is said where there are no rows."""
    said = _NOTHING[group]
    if labels:
        whose = f"project {project}" if project else "a project"
        return {
            "project": f"no quota of a project has the labels {labels}",
            "seed": f"no seed has said what it uses of a quota with the labels {labels}",
            "cluster": f"no cluster here that belongs to {whose} has the labels {labels}",
        }[group]
    if not project:
        return said
    return {
        "project": f"project {project} has no quota: its machines are not limited",
        "seed": f"no seed has said what project {project} uses of its quota",
        "cluster": f"no cluster here belongs to project {project}",
    }[group]


def layout(group: ProjectGroup, *, wide: bool = False) -> Table[ProjectRow]:
    def cells(one: ProjectRow, now: datetime) -> tuple[str, ...]:
        names = (one.project,) if group == "project" else (one.project, one.name)
        more = tuple(plain(text) or NONE for text in one.more) if wide else ()
        return *names, *of_limits(one.used, one.limits), age(one.stale_since, now), *more

    return Table(
        head=(*_HEAD[group], *(_WIDE[group] if wide else ())),
        cells=cells,
        name=lambda one: f"project/{one.project}" if group == "project" else f"{group}/{one.name}/{one.project}",
        uid=lambda one: f"{one.project}/{one.name}",
        body=lambda one: _body(one, group),
        state="CPU",
        ages=("STALE",),
    )


def _body(one: ProjectRow, group: ProjectGroup) -> Json:
    """For programs: quantities, as Kubernetes writes them. What is not known is left out."""
    made: Json = {"project": one.project}
    if group != "project":
        made[group] = one.name
    if one.used is not None:
        made["used"] = written_usage(one.used)
    if one.limits is not None:
        made["granted" if group == "seed" else "limits"] = written_limits(one.limits)
    if one.stale_since:
        made["staleSince"] = one.stale_since
    return made
