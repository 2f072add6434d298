"""The slice as one value: what is charged, the hooks that do it, and the controllers that keep it true."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ullage.kube.slices import Part, Slice, Wiring


def charged(wiring: Wiring) -> Iterable[Any]:
    """Registers the kinds that are charged with the ledgers, in every process."""
    return ()


SPACE: Final = Slice(name="space", shared=Part(make=charged))
