"""What the users of a cluster are told whose Machines are not asked about at the seed (`machines/registrations`). Pure.

They could change it themselves: nothing depends on the answer. The seed looks for itself, puts back what is missing or changed,
and counts Machines that came meanwhile past the limit.
"""

from __future__ import annotations


def note(lacking: list[str]) -> str:
    which = " and ".join(lacking)
    return (
        f"of the seed's webhooks {which} is not registered in this cluster as the seed did it. Machines that are made now are"
        " not asked about: they count for the project's quota all the same, past its limit. The seed puts it back by itself,"
        " within a minute where it reaches this cluster; if it does not, tell whoever runs the seed"
    )
