"""Arguments of several commands, checked before a cluster is asked.

Names become parts of paths and of selectors, so only what Kubernetes allows as a name gets there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from ullage.cli.common import completion
from ullage.errors import BadInput
from ullage.names import is_subdomain

DIALECTS: Final = ("ga", "prototype")


_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0}


_DURATION: Final = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")


_LONGEST: Final = 365 * 24 * 3600.0


_PROJECTS: Final = ("project", "projects")


Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NAME",
        help="The namespace.",
        show_default="the context's own",
        autocompletion=completion.namespaces,
    ),
]


@dataclass(frozen=True, slots=True)
class At:
    """Which cluster, which namespace, which API; None where nothing was said."""

    kubeconfig: str | None
    kube_context: str | None
    namespace: str | None
    dialect: str | None

    def __post_init__(self) -> None:
        if self.namespace is not None:
            name("--namespace", self.namespace)
        if self.dialect is not None:
            one_of("--dialect", self.dialect, DIALECTS)


def name(where: str, given: str) -> str:
    if not is_subdomain(given):
        raise BadInput(
            where,
            given or "(empty)",
            "not a name; up to 253 lower case letters, digits, - and . are allowed, with a letter or digit at both ends",
        )
    return given


def names_project(given: str) -> bool:
    """Whether it is said of a project, well or not: `project/…`."""
    kind, slash, _ = given.partition("/")
    return bool(slash) and kind in _PROJECTS


def project(where: str, given: str) -> str:
    """The id in `project/ID`."""
    from ullage.projects.names import bad_project_id, is_project_id

    if not names_project(given):
        raise BadInput(where, given or "(empty)", "project/ID is allowed")
    id = given.partition("/")[2]
    if not is_project_id(id):
        raise BadInput(where, given, bad_project_id(id))
    return id


def one_of(where: str, given: str, allowed: tuple[str, ...]) -> str:
    if given not in allowed:
        raise BadInput(where, given or "(empty)", f"{', '.join(allowed[:-1])} or {allowed[-1]} is allowed")
    return given


def seconds(where: str, given: str) -> float:
    """A duration such as 90s, 5m or 1h30m; a bare number is seconds. 0 looks once."""
    try:
        found = float(given) if given.replace(".", "", 1).isdecimal() else _spelled(given)
    except ValueError:
        found = None
    if found is None or found > _LONGEST:
        raise BadInput(
            where, given or "(empty)", "not a duration; allowed are hours, minutes and seconds, such as 90s or 1h30m"
        )
    return found


def _spelled(given: str) -> float | None:
    match = _DURATION.fullmatch(given) if given else None
    if match is None:
        return None
    return sum(float(number) * size for number, size in zip(match.groups(), _UNITS.values(), strict=True) if number)


def size(where: str, given: str) -> int:
    """Bytes from a quantity such as 10Gi."""
    from ullage.quantity import Quantity, QuantityError

    try:
        found = Quantity.parse(given).value()
    except QuantityError:
        found = 0
    if not 0 < found < 2**63:
        raise BadInput(where, given or "(empty)", "not a size; allowed are bytes, and units as in 500Mi or 10Gi")
    return found
