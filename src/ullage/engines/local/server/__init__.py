"""The gRPC server of the embedded engine: one process and one socket for many volumes.

`server`: the socket; `services`: Longhorn's three services and our own; `dispatch`: which volume a call is about, and the
code of a failure; `messages`: values as protobuf. `host`: which volumes there are and which are attached; `attached`: one of
these; `jobs`: purges and clones, which outlast their call.
"""
