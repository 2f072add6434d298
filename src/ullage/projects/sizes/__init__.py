"""What a machine costs: cpu, memory and storage, from its provider spec and from what is known of its provider's flavours.

`machine`: the size of a machine. `stated`, `flavoured`: the providers whose machines say their size, and those whose machines
name a flavour. `catalogue`: the flavours that are known, from where and since when; `codec`: as they are stored.
`answers`: flavours from what providers answer. `refreshes`: who is asked next. `units`: which numbers are G and which are Gi.
`lookups`, `fields`: reading what others wrote.
"""
