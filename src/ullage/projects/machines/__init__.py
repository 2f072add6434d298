"""Decisions about the Machines of user clusters, all pure: what a Machine takes, and how its stamp shows that nobody has
changed it (`signatures`, `counting`, `vanished`), what may be changed on one (`updates`), what MachineDeployments are told
(`deployments`, `surge`), and the words for it (`texts`). `reading` makes their `facts` from objects."""
