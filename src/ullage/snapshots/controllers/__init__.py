"""The controllers, one folder each: `<kind>/<verb>`. None imports another.

`controller.py` gathers, calls the pure `rules.py` beside it, and acts. Every plan is worked out anew from what is seen, and
every write carries the version that was looked at: a process may die after any of them, and the next one goes on from there.

    snapshot/bind, claim/release                   in the main controller
    record/sync, claim/restore, volume/reclaim     where the driver is called: there too, or in a sidecar
"""
