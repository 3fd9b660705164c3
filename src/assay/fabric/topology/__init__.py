"""What is cabled to what: explicit networks, drawn from a design or read from a fabric."""
