"""Takes and deletes the storage system's snapshots, record by record, by calls to the driver.

The mark comes before the call: a record has the annotation `ullage.io/creating` before its driver is asked, under a name that
follows from the snapshot's uid. A process that dies in between leaves the mark, and the next one asks under the same name.
After the answer that nothing was made the mark goes; after one that does not tell it stays, and a deletion undoes first.
Retryable errors back off to a minute. Terminal ones rest until snapshot, record or class are edited, and are tried again at
long intervals. What was tried is remembered in memory only: after a restart everything is tried once.
"""
