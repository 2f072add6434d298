"""run_perform: runs the commands of HookRuns. snapshot_cut: lets a snapshot be cut once its hooks have run."""
