"""How a cluster is reached and as whom; typed objects in and out, one HTTP call each."""
