"""Asking a ledger, and recounting it.

service    one batcher for each ledger; batcher: decides requests that arrive together in order (decisions), and writes once
writes     one write of a status; answers: go out one after the other once it is done
views      count from the caches; folder: the leader recounts; expiry: looks up what has been pending too long
limits     sets them, by changes that are numbered
line       those who ask, and those who wait for room; restores: notices backups
"""
