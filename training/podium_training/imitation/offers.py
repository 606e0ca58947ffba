from collections.abc import Iterable, Sequence
from random import Random

from podium.episodes.v1.trajectory_pb2 import Trajectory
from podium_training.tasks.task import Task


class NothingToLearn(ValueError):
    """The stream lacks episodes of a kind that is needed; the message says which."""


# Beside the expert. Not every task of a list finds its own among so many.
TOOLS = range(3, 7)


class Offers:
    """The tools and prices that episodes with experts were offered."""

    def __init__(self, episodes: Iterable[Trajectory], expert: str) -> None:
        self._hosts = [each for each in episodes if expert in each.tool_names]
        if not self._hosts:
            raise NothingToLearn(f"no solved episode with {expert} is on the stream: play some")
        self.expert = expert
        self._tools = {tool.name: tool for each in self._hosts for tool in each.tools}

    def draw(self, tasks: Sequence[Task], random: Random) -> Trajectory:
        host = Trajectory()
        host.CopyFrom(random.choice(self._hosts))
        [asked] = (tool for tool in host.tools if tool.name == self.expert)
        offered = [asked, *(self._tools[name] for name in self._names(tasks, random))]
        del host.tools[:]
        host.tools.extend(sorted(offered, key=lambda tool: tool.name))
        return host

    def _names(self, tasks: Sequence[Task], random: Random) -> set[str]:
        """The tools of one task after the other while there is room, and others."""
        looking = {name for task in tasks for name in task.judging_tools}
        known = set(self._tools) - {self.expert} - looking
        room, names = random.choice(TOOLS), set[str]()
        for task in random.sample(tasks, len(tasks)):
            if known.issuperset(task.tools) and len(names.union(task.tools)) <= room:
                names.update(task.tools)
        others = sorted(known - names)
        return names.union(random.sample(others, min(room - len(names), len(others))))
