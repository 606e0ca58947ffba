"""Tasks with answers that can be computed, made from a seed."""
