"""Answers of `assay plan` for people: one page each, shown in a terminal or as one HTML file that opens
offline."""
