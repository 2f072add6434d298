"""Snapshot space: how much the snapshots of a namespace, and of each virtual machine in it, take; and no more than allowed.

`accounts`: the ledger of a namespace, its accounts, who of many pays. `estimates`: what a snapshot would
take. `charges`: the kinds that pay. `lookup`: claims, volumes, engines, virtual machines. `webhook`: what is new is stamped and
booked, and stamps are guarded. `api`: the quota object; `quota`: its limits, faults and usage; `quantities`: sizes as people
write them; `estimate_counts`: how sizes are known. `slice`: the composition.
"""
