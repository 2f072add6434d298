"""What a machine costs: cpu, memory and storage, from its provider spec and from what is known of its provider's flavours.

`store`: what admission asks (`source`), from MachineCatalogues (`stored`, `codec`) and the clusters' `sites`; it has what is
missing asked for. `machine`: the size of a machine, stated by its spec or by its flavour.
`catalogue`: the flavours that are known, from where and since when. `providers`: asks
clouds; `answers`: flavours from what they answer. `units`: which numbers are G, which are Gi.
`lookups`, `fields`: reading what others wrote.
"""
