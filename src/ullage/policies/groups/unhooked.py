"""Stands in for cut hooks where none are run: everything may be cut at once."""

from __future__ import annotations

from collections.abc import Iterable

from ullage.policies.cut_hooks.api import HookSpec
from ullage.policies.cut_hooks.interface import HookAnswer, HookHolder, HooksReady


class Unhooked:
    """See `cut_hooks.interface.CutHooks`."""

    async def prepare(self, holder: HookHolder, claims: Iterable[str], spec: HookSpec | None = None) -> HookAnswer:
        return HooksReady()

    async def leave(self, holder: HookHolder) -> None:
        return None
