"""Project quotas: how much CPU, memory and disk the machines of a project may take, over many clusters.

`api` has the kinds, `names` what they are called and marked with. `calculation`: what a form
asks before machines are made. `sizes`: what a machine costs. `machines`: the decisions about single Machines.
"""
