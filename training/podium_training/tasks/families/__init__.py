"""Kinds of task, one file each: `draw` makes one at random."""
