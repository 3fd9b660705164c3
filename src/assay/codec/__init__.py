"""Records to and from JSON, YAML and TOML, with every fault told by file and line."""
