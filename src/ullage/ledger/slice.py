"""The ledger as a slice: its kind, the one service of each process, and the recount by whoever leads.

Slices that charge for something register it (`charging/registry.py`). While none does, nothing is served and nothing watched.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ullage.kube.cache.indexer import Key
from ullage.kube.controller.controller import Controller
from ullage.kube.review import Hook
from ullage.kube.slices import Part, Slice, Wiring, Write
from ullage.ledger.api import LEDGERS
from ullage.ledger.charging.registry import registry_of
from ullage.ledger.service.expiry import Settings

_WRITES: Final = (Write(LEDGERS, ("update",), ("status",)),)


def ledger(settings: Settings | None = None) -> Slice:
    """With what is known of the API server: how long its requests take at most."""
    known = settings or Settings()

    def controllers(wiring: Wiring) -> Iterable[Controller[Key]]:
        return registry_of(wiring).folding(known)

    def hooks(wiring: Wiring) -> Iterable[Hook]:
        """None of its own: ledgers have no webhook, since every webhook needs them."""
        registry_of(wiring).serve(known)
        return ()

    return Slice(
        name="ledger",
        kinds=(LEDGERS,),
        controllers=Part(make=controllers, watches=(LEDGERS,), writes=_WRITES),
        # A hook that admits a limit makes the ledger for it.
        hooks=Part(make=hooks, watches=(LEDGERS,), writes=(Write(LEDGERS, ("create",)), *_WRITES)),
    )


LEDGER: Final = ledger()
