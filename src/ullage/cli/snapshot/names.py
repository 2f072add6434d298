"""Names that the shell completes in `ullage snapshot`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage.cli.common.completion import asked

if TYPE_CHECKING:
    from ullage.cli.common.session import Session


@asked
async def snapshots(session: Session) -> list[str]:
    from ullage.cli.snapshot.reading import list_snapshots
    from ullage.cli.snapshot.selection import Everything

    return [one.obj.metadata.name for one in (await list_snapshots(session, Everything())).found]


@asked
async def classes(session: Session) -> list[str]:
    """That snapshots are taken with. For those of the prototype these are StorageClasses."""
    [dialect] = session.among[:1]
    return [one.metadata.name for one in (await session.client.list(dialect.classes)).items]
