"""The embedded engine: volumes as chains of sparse files, for one machine and for tests.

`store/` keeps volumes in a directory, `server/` serves them over Longhorn's protocol. Both answer, and word a refusal, as
longhorn-engine does, so that callers cannot tell the two apart; how they get there, and what a crash leaves, is their own.

What is acknowledged: a write that has returned survives the end of the process, however it ends. It survives a power cut once
`sync` or `snapshot` has returned. Snapshots, marks, reverts, clones and limits survive both as soon as the call returns.
The one assumption: a block of 4096 bytes gets to the disk whole or not at all, as file systems with blocks of that size see to.
"""
