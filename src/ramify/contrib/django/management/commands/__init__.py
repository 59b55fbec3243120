"""One file a command; its name is that of the command."""
