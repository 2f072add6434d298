"""Project quotas: how much CPU, memory and disk the machines of a project may take, over many clusters.

`api` has the kinds, `names` what they are called and marked with, `quota` and `clusters` the terms of decisions about quotas.
`slice` is the front page: `master` and `seed` are what runs where, with `controllers` and `webhook`; `seeds` are the clusters
that the master follows, `charging` what a seed counts in user clusters, `records` what it remembers of Machines,
`cluster_count` how many clusters a project has. `escrow`: how a quota is divided over seeds. `machines`: the decisions about
single Machines. `sizes`: what a machine costs. `calculation`: what a form asks before machines are made. `routes`: REST.
"""
