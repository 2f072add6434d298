"""SnapshotSchedules: snapshots of the claims of a namespace at the times of a cron expression, and which of them are kept.

api          the kind
cron         times: when a schedule runs next, and when it ran last; what clocks that change do to it
model        what a schedule makes: names and marks, and how a snapshot of one stands. Pure
controllers  run: takes snapshots. retain: deletes those that are not to be kept
"""
