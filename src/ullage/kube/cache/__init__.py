"""List and watch of one kind, kept in memory: what controllers read.

reflector    lists and watches, misses no delete, and knows the position that it has reached
cache        what was read, with handlers for changes; indexer: objects by key and by other values; interning: equal values once
"""
