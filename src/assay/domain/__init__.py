"""The vocabulary: frozen records and their invariants. No reading, no writing, no other room."""
