"""Names that the shell completes in `ullage volume` and `ullage tree`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage.cli.common.completion import asked

if TYPE_CHECKING:
    from ullage.cli.common.session import Session


@asked
async def targets(session: Session) -> list[str]:
    from ullage.cli.volume.reading import list_volumes

    found = (await list_volumes(session.client)).found
    return [one.claim for one in found if one.claim] + [one.volume.metadata.name for one in found]


@asked
async def claims(session: Session) -> list[str]:
    """As `ullage tree` takes them."""
    from ullage.kube.builtin.core import CLAIMS

    return [f"pvc/{one.metadata.name}" for one in (await session.client.list(CLAIMS, session.namespace)).items]
