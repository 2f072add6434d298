"""Whether the servers of Machines are still there: providers are asked by the uid that machine-controller marks servers with,
in the background and never during admission, with the credentials of the Clusters on the seed."""
