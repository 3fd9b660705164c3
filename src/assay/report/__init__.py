"""Showing an assessment to people: the terminal, and one HTML file that opens offline."""
