"""Snapshot space: how much the snapshots of a namespace, and of each virtual machine in it, take; and no more than allowed.

`accounts`: the ledger of a namespace, its accounts, and takings in bytes. `slice`: the composition.
`api`: the quota object; `quota`: its limits, faults and usage; `quantities`: sizes as people write them.
`estimate_counts`: how sizes are known.
"""
