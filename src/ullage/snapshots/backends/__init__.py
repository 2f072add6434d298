"""The storage systems that take snapshots, each behind `base.Backend`: `csi`, `hostpath` and `longhorn`.

`base` says what a backend must be able to do and what its errors mean. One contract suite tests them all.
"""
