"""Notices within seconds what has changed: events in, incidents out, and the books of the service kept."""
