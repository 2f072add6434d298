"""The REST API of project quotas, with the paths and fields of KKP's.

numbers         amounts as numbers: cores, and GiB in what the API calls GB
items           what goes over the wire
administration  quotas, for administrators
membership      the quota of a project, for its members
roles           who may
routes          all of them
"""
