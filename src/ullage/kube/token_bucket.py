"""A rate that may be exceeded for a moment: so much at once, and so much a second after that."""

from __future__ import annotations

from typing import Final

from ullage.clock import Clock

_EMPTY: Final = 1e-9  # what is left after a sum of fractions that should be nothing


class TokenBucket:
    """Whoever spends may go below nothing, and then waits until that is made up for: one large thing passes, if late."""

    def __init__(self, *, rate: float, burst: float, clock: Clock) -> None:
        if rate <= 0 or burst <= 0:
            raise ValueError(f"a rate of {rate:g} with {burst:g} at once: both are more than nothing")
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._left = float(burst)
        self._at = clock.monotonic()

    def spend(self, tokens: float) -> float:
        """Takes tokens in any case. The seconds until the next are to be taken; 0: now."""
        self._fill()
        self._left -= tokens
        return self.wait()

    def wait(self) -> float:
        """The seconds until there is one at least."""
        self._fill()
        return -self._left / self._rate if self._left < -_EMPTY else 0.0

    @property
    def full(self) -> bool:
        """Whether it is as if nobody had ever spent anything."""
        self._fill()
        return self._left >= self._burst

    def _fill(self) -> None:
        now = self._clock.monotonic()
        self._left = min(self._burst, self._left + max(0.0, now - self._at) * self._rate)
        self._at = now
