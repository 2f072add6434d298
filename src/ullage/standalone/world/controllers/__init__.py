"""One folder for each kind that a cluster's own controllers, kubelet or Longhorn would look after."""
