"""Does it fit? One ledger per tenant answers, for every quota in the product, and no two answers contradict each other."""
