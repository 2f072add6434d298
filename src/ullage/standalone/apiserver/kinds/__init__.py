"""What is served, and what differs between kinds.

resources           one Resource for each kind in each version, and the Registry that finds them
builtin             the built-in kinds, beside their published definitions; conversion: those whose versions differ
versions            an object from its stored version to the one that is asked for, and back
metadata            names, labels and the rest of an object's metadata
strategies/         defaults, validation and what may change, kind by kind; service_addresses: what Services are given
"""
