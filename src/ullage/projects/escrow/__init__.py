"""How a project's quota is divided over seed clusters, so that no two of them can spend the same room.

`terms` has the master's record, `seeds` what a seed's ledger shows, `division` who is to have how much of one resource,
and `steps` what is to be done next: steps as values. Pure: nothing here reads, writes or knows the time.
"""
