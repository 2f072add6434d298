"""ResourceQuotas and LimitRanges as they are enforced: after all webhooks, and together with what they count.

pods     what a pod asks for and may use at most; usage  what any object counts as; scopes  which quotas it counts in
check    whether it fits, and what the quotas say afterwards; enforce  the same against the store
limit_ranges   what a container gets that asks for nothing, and the bounds
"""
