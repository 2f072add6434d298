"""What is admitted: `quotas` on the master; `clusters` on a seed; `machines` and `deployments` in user clusters. Beside them
are the rules of each, and what answers about Machines are made of: `sizing`, `room`, `surges`, and the Events of `refusals`."""
