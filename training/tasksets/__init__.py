"""Tasks with answers that can be computed, made from a seed; loaders of others' tasks."""

from tasksets.task import Call, Split, Task
from tasksets.taskset import FAMILIES, generate

__all__ = ["FAMILIES", "Call", "Split", "Task", "generate"]
