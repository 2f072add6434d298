"""Keys, workers and leadership: what runs a slice's `reconcile`.

queue         keys to look at: each once, one worker a key; attempts: what has failed, and how often
controller    gather, decide, act, with sources that wake it; lease, candidate: leader election, which refuses late writes
reconciler    the base of a controller, which says what it watches and remembers; outcome: what a run did; pace: how often
"""
