"""Asking a ledger, and recounting it.

service    one batcher for each ledger; batcher: keeps requests in line, decides those that arrive together in order
           (decisions), writes once (writes), and sends the answers
views      count from the caches; folder: the leader recounts; expiry: looks up what has been pending too long
limits     sets them, by changes that are numbered
restores   notices backups that were restored
"""
