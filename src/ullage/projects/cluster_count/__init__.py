"""How many clusters a project has on a seed, in a ledger of its own.

ledger    which one, and its limit
charging  has the clusters counted
"""
