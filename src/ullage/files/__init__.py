"""Files and directories as operating systems know them: holes in files, and trees that may be deep."""
