"""A CSI driver with real data in files, for tests and benchmarks: `python -m tests.csi_driver --endpoint … --state DIR`.

It is what a storage system is to Ullage, so it is a process of its own, keeps everything through kill -9, and passes
csi-sanity. A control file turns faults on and off while it runs (`faults.py`).
"""
