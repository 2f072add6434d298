"""What quotas of projects over many clusters cost: a Machine's way to the sum on the master, a decision, memory."""
