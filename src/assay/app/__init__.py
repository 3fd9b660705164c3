"""The command line, one file per command, and later the web pages."""
