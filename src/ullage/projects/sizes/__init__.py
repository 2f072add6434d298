"""What a machine costs: cpu, memory and storage, from its provider spec and from what is known of its provider's flavours.

`store`: what admission asks (`source`), from MachineCatalogues (`stored`, `codec`) and the clusters' `sites`; `requests`: has
what is missing asked for. `machine`: the size of a machine. `stated`, `flavoured`: the providers whose machines say their size,
and those whose machines name a flavour. `catalogue`: the flavours that are known, from where and since when. `providers`: asks
clouds; `answers`: flavours from what they answer. `refreshes`: who is asked next. `units`: which numbers are G, which are Gi.
`lookups`, `fields`: reading what others wrote.
"""
