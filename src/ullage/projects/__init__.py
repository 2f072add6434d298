"""Project quotas: how much CPU, memory and disk the machines of a project may take, over many clusters.

`api` has the kinds, `names` what they are called and marked with, `quota` and `clusters` the terms of decisions about quotas,
`controllers` and `webhook` those decisions. `calculation`: what a form asks before machines are made. `sizes`: what a machine
costs. `machines`: the decisions about single Machines. `escrow`: how a quota is divided over seed clusters.
"""
