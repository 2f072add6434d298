"""Headroom: what the virtual machines of a namespace may take, so that there is always room to move them to other nodes.

`accounts`: the two shares of a namespace's ledger. `cost`: what a machine takes, as it is stamped. `counting`: whether it takes
anything at all. `charges`: the kinds that are counted. `settings`: whose word on a status is believed, and which table of
costs holds. `texts`: what is said when it does not fit. `webhook`: what is new is stamped and booked. `slice`: the composition.
"""
