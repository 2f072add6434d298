"""Writes down what was seen of the Machines of each cluster, and has those that went count on for a while."""
