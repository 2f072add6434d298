"""share_grant: gives snapshots to other namespaces, and takes them back."""
