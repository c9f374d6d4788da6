"""The command line: related commands in one file."""
