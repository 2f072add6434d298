"""How long to wait before the next try: for queues of keys and for watches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait after the n-th failure in a row: doubled each time, up to a cap."""

    first: float = 0.02
    cap: float = 60.0

    def __post_init__(self) -> None:
        if not 0 < self.first <= self.cap:
            raise ValueError(f"a backoff from {self.first} s to {self.cap} s is none")

    def delay(self, failures: int) -> float:
        doublings = min(failures - 1, 60)  # a float has room for these, and the cap is reached long before
        return float(min(self.first * 2.0**doublings, self.cap))
