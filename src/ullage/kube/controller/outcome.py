"""What a run of `reconcile` did, as a value. The controller logs the sentence, so an operator can follow what happens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

LONGEST_SENTENCE: Final = 400  # characters
NAMED: Final = 5  # items of a list that a sentence names


@dataclass(frozen=True, slots=True)
class Outcome:
    """Reads as `namespace team-a: quota limits carried to ledger ns-team-a: 10Gi`.

    Names and amounts only: no text that a user or another program wrote, and nothing from a Secret.
    """

    about: str  # the object: `namespace team-a`
    done: tuple[str, ...] = ()  # one clause for each thing that was done; empty: nothing was done
    after: float | None = None  # seconds until the next look, at the latest; None: when something changes
    paced: bool = True  # False: the next look need not wait for the controller's pace

    @property
    def acted(self) -> bool:
        return bool(self.done)

    @property
    def sentence(self) -> str:
        """The sentence, cut off after `LONGEST_SENTENCE` characters."""
        text = f"{self.about}: {'; '.join(self.done) or 'nothing to do'}"
        return text if len(text) <= LONGEST_SENTENCE else f"{text[: LONGEST_SENTENCE - 1]}…"


def listed(items: Iterable[str]) -> str:
    """Returns `a, b, c, d, e and 3 more`, or `none`."""
    named = list(items)
    more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    return f"{', '.join(named[:NAMED])}{more}" or "none"
