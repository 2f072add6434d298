"""Calls to volume engines over gRPC.

`interface`: what the controllers need of an engine; `engine`: real engines, through that interface; `connection`: those of one
host of embedded engines.
`longhorn`: the calls of Longhorn's protocol for one volume; `host`: those that only a host of embedded engines has.
`calls`: one bounded call about one volume; `channels`: connections, shared by address; `messages`: protobuf as values.
`errors`: what an engine's answer means: Uncertain, NotNow or Impossible, and the reason.
"""
