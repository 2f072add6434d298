"""Names that the shell completes in `ullage ledger`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage.cli.common.completion import asked

if TYPE_CHECKING:
    from ullage.cli.common.session import Session


@asked
async def ledgers(session: Session) -> list[str]:
    from ullage.ledger.api import LEDGERS, NAMESPACE

    return [one.metadata.name for one in (await session.client.list(LEDGERS, NAMESPACE)).items]
