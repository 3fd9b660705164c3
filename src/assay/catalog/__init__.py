"""Published facts with source and date, shipped as TOML; loads nothing until asked."""
