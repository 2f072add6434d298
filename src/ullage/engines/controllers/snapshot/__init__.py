"""Takes and removes the snapshots that Snapshot objects ask for.

`controller`: gather, decide, act. `rules`: the step that is next, and how far a removal is; `statuses`: what is written then.
`operations`: what the engine is asked for, safe to repeat; `purges`: how many at a time. `events`: Events on Snapshots.
`triggers`: which Snapshots a changed Engine or Volume concerns: only those whose own entry changed, since an engine's status
changes all the time.
"""
