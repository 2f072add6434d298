"""The ledger as a slice: its kind. Whoever charges something to it brings the controllers and hooks that do so."""

from __future__ import annotations

from typing import Final

from ullage.kube.slices import Slice
from ullage.ledger.api import LEDGERS

LEDGER: Final = Slice(name="ledger", kinds=(LEDGERS,))
