"""Between a handler and the store: the server's own admission, webhooks and ValidatingAdmissionPolicies."""
