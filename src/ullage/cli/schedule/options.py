"""What the commands of `ullage schedule` can be told, checked before a cluster is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ullage.cli.common import completion
from ullage.cli.common.arguments import name
from ullage.errors import BadInput

if TYPE_CHECKING:
    from ullage.cli.common.session import Session


@completion.asked
async def schedules(session: Session) -> list[str]:
    from ullage.policies.schedules.api import SCHEDULES

    return [one.metadata.name for one in (await session.client.list(SCHEDULES, session.namespace)).items]


NewName = Annotated[str, typer.Argument(metavar="NAME", help="The schedule.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The schedule.", autocompletion=schedules)]
Names = Annotated[list[str], typer.Argument(metavar="NAME", help="The schedules.", autocompletion=schedules)]
SomeNames = Annotated[
    list[str] | None, typer.Argument(metavar="NAME", help="Only these.", autocompletion=schedules, show_default="all")
]
NewDialect = Annotated[
    str,
    typer.Option(
        "--dialect",
        metavar="ga|prototype",
        autocompletion=completion.words("ga", "prototype"),
        help="Whose VolumeSnapshot: the one that became Kubernetes' own, or the prototype's.",
    ),
]


def names(given: list[str]) -> list[str]:
    """Each once, in the order given."""
    return list(dict.fromkeys(name("NAME", one) for one in given))


def check_times(schedule: str, time_zone: str) -> None:
    """The fields of a spec are options here."""
    from ullage.policies.schedules.cron import FIELD, read_timetable

    try:
        read_timetable(schedule, time_zone)
    except BadInput as error:
        raise BadInput("--schedule" if error.where == FIELD else "--time-zone", error.given, error.problem) from None


def first_run(schedule: str, time_zone: str) -> str:
    from ullage.clock import SystemClock
    from ullage.policies.schedules.cron import read_timetable
    from ullage.times import timestamp

    found = read_timetable(schedule, time_zone).next_after(SystemClock().now())
    return timestamp(found) if found is not None else "never"


def claim_selector(given: str | None) -> dict[str, Any]:
    """A selector as people write it, as an object."""
    from ullage.selectors import LabelSelector, SelectorError

    words = {"in": "In", "notin": "NotIn", "!=": "NotIn", "exists": "Exists", "!": "DoesNotExist"}
    try:
        terms = LabelSelector.parse(given or "").requirements
    except SelectorError as error:
        raise BadInput("--claims", given, f"not a selector ({error}); allowed is something like app=db,tier!=test") from error
    if any(one.operator in "<>" for one in terms):
        raise BadInput("--claims", given, "< and > are not allowed; allowed is something like app=db,tier!=test")
    labels = {one.key: next(iter(one.values)) for one in terms if one.operator in ("=", "==")}
    more = [
        {"key": one.key, "operator": words[one.operator], **({"values": sorted(one.values)} if one.values else {})}
        for one in terms
        if one.operator in words
    ]
    return {**({"matchLabels": labels} if labels else {}), **({"matchExpressions": more} if more else {})}


def retention(count: int | None, age: str | None, size: str | None) -> dict[str, Any]:
    from ullage.policies.schedules.retention import read_age, read_size

    try:
        if age is not None:
            read_age(age)
    except BadInput as error:
        raise BadInput("--keep-for", age or "(empty)", error.problem) from None
    try:
        if size is not None:
            read_size(size)
    except BadInput as error:
        raise BadInput("--keep-size", size or "(empty)", error.problem) from None
    given = {"count": count, "age": age, "totalSize": size}
    return {key: value for key, value in given.items() if value is not None}
