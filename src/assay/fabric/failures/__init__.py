"""What breaks or slows in a fabric, what is left of it, and how long until it has healed."""
