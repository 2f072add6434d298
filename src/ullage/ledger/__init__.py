"""Does it fit? One ledger for each tenant answers, for every quota in the product, and no two answers contradict each other.

api, amounts     the Ledger kind; accounts, resources and exact amounts
book, fold       what a charge costs, what a recount drops; readiness: is it exact?; pending: attempts as one compact string
codec, refusals  a Ledger as a book and back; what a person is told
demand, anew     limits that are grants, and what is wanted of them; counts that begin anew, as after a backup was restored
charges          what a request asks of a ledger; service/: asks and recounts; charging/: what slices use
A ledger holds 2,000 attempts that are not counted yet: whoever comes after that is told to try again.
"""
