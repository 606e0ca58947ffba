"""Holds and journal entries: batches of operations in, outcomes out, group commit in between."""
