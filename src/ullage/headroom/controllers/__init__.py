"""What keeps it true: `limits` and `exceeds` the shares of namespaces, `follow` what machines are stamped to take;
`launchers` which pods are paid for; `scale_quota` raises core quotas while instances migrate, where that is chosen."""
