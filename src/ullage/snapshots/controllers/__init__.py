"""The controllers, `<kind>_<verb>.py`. Pure rules are in the same module, or in `<kind>_<verb>_rules.py` where they are long.

A controller gathers, calls its rules, and acts. It makes every plan anew from what the caches show, and every write carries the
version that it read. A process may die after any write, and the next process continues from there.

    snapshot_bind, claim_release                   in the main controller
    record_sync, claim_restore, volume_reclaim     where the driver is called: in the main controller, or in a sidecar
"""
