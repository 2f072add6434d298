"""The reason of an Event: a constant of the module whose code records it. Pure, so that rules may name one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

NAME_LIMIT: Final = 128  # of reason, action and reporting instance
_PASCAL_CASE: Final = re.compile(r"[A-Z][A-Za-z0-9]*")


@dataclass(frozen=True, slots=True)
class Reason:
    """One kind of thing that happens to objects: `SnapshotReady`. Declared once, as a constant of the module."""

    name: str
    action: str = ""  # what was done or tried, if that is not the same
    type: Literal["Normal", "Warning"] = "Normal"

    def __post_init__(self) -> None:
        for word in (self.name, self.action or self.name):
            if not _PASCAL_CASE.fullmatch(word) or len(word) > NAME_LIMIT:
                raise ValueError(f"event reason {word!r}: one PascalCase word of at most {NAME_LIMIT} letters")
