"""Volumes of CSI drivers: any storage system with a Container Storage Interface socket.

`backend` is the `base.Backend`; `client` makes the calls, over the socket of `channel`; `errors` says what a refusal means.
`csi.proto` is our own, of the published field numbers. Importing this package costs nothing: `backend` and `client` load gRPC,
so they are imported where a driver is really used.
"""
