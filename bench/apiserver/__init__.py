"""How fast the embedded API server is, beside a kube-apiserver in the same run where one is given."""
