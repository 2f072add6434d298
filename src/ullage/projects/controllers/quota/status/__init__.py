"""What the seeds say that a project uses (`totals`), and what the status of its quota says about that (`rules`)."""
