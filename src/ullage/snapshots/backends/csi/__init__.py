"""Volumes of CSI drivers: any storage system with a Container Storage Interface socket.

Importing this package costs nothing. `backend` and `client` load gRPC, so they are imported where a driver is really used.
"""
