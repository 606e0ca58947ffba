"""Episodes of one task, compared with each other: assembled, judged fit, or dropped."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import torch

from podium_training.grpo.data.episodes import Episode, GroupKey
from podium_training.grpo.model.samples import Row
from podium_training.grpo.objective.advantages import (
    GROUP_ESTIMATORS,
    Advantage,
    Components,
    OfGroup,
    Weights,
    batch_std,
    gdpo,
)
from podium_training.grpo.objective.rewards import (
    PAPER_RULES,
    Preferences,
    RewardRules,
    Weight,
    components,
    rewards,
)
from podium_training.grpo.objective.staleness import StalenessBound


def with_tools_in_common(members: Sequence[Episode]) -> list[Episode]:
    """The episodes with the tools of all of them: find_tools may have given each of them others.

    What an episode was not offered it has not called, and its weight is the one it has for others.
    """
    if len({member.tools for member in members}) == 1:
        return list(members)
    weights = {
        name: weight
        for member in members
        for name, weight in zip(member.tools, member.preferences.tools, strict=True)
    }
    return [_with_tools(member, weights) for member in members]


def _with_tools(member: Episode, weights: dict[str, float]) -> Episode:
    called = dict(zip(member.tools, member.features.tool_calls, strict=True))
    weighed = weights | dict(zip(member.tools, member.preferences.tools, strict=True))
    return replace(
        member,
        tools=tuple(weights),
        features=replace(
            member.features, tool_calls=tuple(called.get(name, 0) for name in weights)
        ),
        preferences=replace(member.preferences, tools=tuple(weighed[name] for name in weights)),
    )


def _with_rows(members: Sequence[Episode], wanted: Callable[[Row], bool]) -> tuple[Episode, ...]:
    return tuple(replace(each, rows=tuple(filter(wanted, each.rows))) for each in members)


REMEMBERED_EPISODES = 100_000
OPEN_MAX = 1_000
SIZE_UNKNOWN = 0
DUPLICATE = "duplicate"


class Dropped(StrEnum):
    TOO_FEW = "too few members"
    ZERO_VARIANCE = "zero variance"
    UNSOLVED = "unsolved"
    """Nothing in it is worth imitating."""
    STALE = "stale"
    """A call of it was answered by a version too far behind."""
    MIXED = "mixed"
    """Its members had other tasks, preferences or currencies: not comparable."""


@dataclass(frozen=True)
class GroupRules:
    members_min_share: float = 0.5
    """Share of the group's size; at least two members in any case, where they are compared."""
    std_floor: float = 0.1
    """Groups whose rewards differ less teach nothing (paper, section 3.3). At 0 they are kept: they
    cost no computing and make the step smaller, as many that agree should."""
    reward_rules: RewardRules = PAPER_RULES
    staleness: StalenessBound | None = None
    """None: however old."""
    masks_malformed: bool = False
    """Replies that could not be read are not trained (paper, section 3.3); their episodes count."""
    ignored: frozenset[Weight] = frozenset()
    """Weights that prompts state and rewards leave out."""


@dataclass
class OpenGroup:
    """Members that have arrived, and how many will never come."""

    size: int
    members: list[Episode] = field(default_factory=list)
    tombstones: int = 0

    @property
    def complete(self) -> bool:
        return 0 < self.size <= len(self.members) + self.tombstones


@dataclass(frozen=True)
class Group:
    """A group to learn from: a reward for each member."""

    key: GroupKey
    members: tuple[Episode, ...]
    rewards: tuple[float, ...]
    wanted: Preferences
    """The vector that weighs the rewards; all members have the same."""
    advantages: tuple[float, ...] = ()
    """One for each member, once `compared` has seen all groups of the step."""


def compared(
    groups: Sequence[Group], estimator: Advantage, reward_rules: RewardRules = PAPER_RULES
) -> list[Group]:
    advantages = _advantages(groups, estimator, reward_rules)
    return [
        replace(group, advantages=tuple(found.tolist()))
        for group, found in zip(groups, advantages, strict=True)
    ]


def _advantages(
    groups: Sequence[Group], estimator: Advantage, reward_rules: RewardRules
) -> list[OfGroup]:
    if estimator is Advantage.GDPO:
        parts = [_components(group, reward_rules) for group in groups]
        return gdpo(parts, [_weights(each) for each in groups])
    earned = [torch.tensor(group.rewards, dtype=torch.float64) for group in groups]
    if estimator is Advantage.BATCH_STD:
        return batch_std(earned)
    return [GROUP_ESTIMATORS[estimator](rewards) for rewards in earned]


def _components(group: Group, reward_rules: RewardRules) -> Components:
    features = [member.features for member in group.members]
    return torch.from_numpy(components(features, reward_rules))


def _weights(group: Group) -> Weights:
    return torch.from_numpy(group.wanted.vector())


@dataclass
class GroupAssembler:
    """Takes episodes in any order and gives each group once, when it is complete."""

    rules: GroupRules = field(default_factory=GroupRules)
    estimator: Advantage = Advantage.GROUP_STD
    maximum: int = OPEN_MAX
    """One more open group, and the oldest is closed: some members are never started, and open
    groups are in memory and in every checkpoint."""
    open: "OrderedDict[GroupKey, OpenGroup]" = field(default_factory=OrderedDict)
    seen: "OrderedDict[str, None]" = field(default_factory=OrderedDict)
    dropped: Counter[str] = field(default_factory=Counter)

    def add(self, episode: Episode) -> Group | None:
        """A member arrived; a group that is now closed, if any, and worth a step."""
        if not self._is_new(episode.id):
            return None
        group = self._group(episode.group, episode.group_size)
        group.members.append(episode)
        return self._close_one(episode.group)

    def mark_missing(self, episode_id: str, key: GroupKey, size: int) -> Group | None:
        """A member will never be usable; it counts as absent and never as reward 0."""
        if not self._is_new(episode_id):
            return None
        self._group(key, size).tombstones += 1
        return self._close_one(key)

    def close(self, key: GroupKey) -> Group | None:
        """The group of the members that came: all have finished, or too many groups are open."""
        group = self.open.pop(key, None)
        return None if group is None else self._judge(key, group)

    def admits(self, group: Group, step: int) -> bool:
        """Returns whether a group is fresh enough after so many steps; where not, it is dropped."""
        bound = self.rules.staleness
        if bound is None or not bound.exceeded(group.members, step):
            return True
        self.dropped[Dropped.STALE] += 1
        return False

    def _is_new(self, episode_id: str) -> bool:
        if episode_id in self.seen:
            self.dropped[DUPLICATE] += 1
            return False
        self.seen[episode_id] = None
        if len(self.seen) > REMEMBERED_EPISODES:
            self.seen.popitem(last=False)
        return True

    def _group(self, key: GroupKey, size: int) -> OpenGroup:
        group = self.open.setdefault(key, OpenGroup(size))
        group.size = group.size or size
        return group

    def _close_one(self, key: GroupKey) -> Group | None:
        """The one that is complete, or the oldest of too many."""
        if self.open[key].complete:
            return self.close(key)
        return self.close(next(iter(self.open))) if len(self.open) > self.maximum else None

    def _judge(self, key: GroupKey, group: OpenGroup) -> Group | None:
        group.members = with_tools_in_common(group.members)
        if reason := self._fault(group):
            self.dropped[reason] += 1
            return None
        if self.estimator is Advantage.SOLVED:
            return self._demonstrated(key, group)
        return self._rewarded(key, group)

    def _demonstrated(self, key: GroupKey, group: OpenGroup) -> Group | None:
        members = _with_rows(group.members, lambda row: row.exemplary)
        solved = tuple(float(each.features.solved and bool(each.rows)) for each in members)
        if not any(solved):
            self.dropped[Dropped.UNSOLVED] += 1
            return None
        return Group(key, members, solved, members[0].preferences)

    def _rewarded(self, key: GroupKey, group: OpenGroup) -> Group | None:
        wanted = group.members[0].preferences.without(self.rules.ignored)
        features = [member.features for member in group.members]
        earned = rewards(features, wanted, self.rules.reward_rules)
        if earned.std(ddof=1) < self.rules.std_floor:
            self.dropped[Dropped.ZERO_VARIANCE] += 1
            return None
        masks = self.rules.masks_malformed
        members = _with_rows(group.members, lambda row: not (masks and row.malformed))
        return Group(key, members, tuple(earned.tolist()), wanted)

    def _fault(self, group: OpenGroup) -> Dropped | None:
        alone = 1 if self.estimator is Advantage.SOLVED else 2
        needed = max(alone, round(group.size * self.rules.members_min_share))
        if len(group.members) < needed:
            return Dropped.TOO_FEW
        kinds = {(each.task_id, each.preferences, each.currency) for each in group.members}
        return Dropped.MIXED if len(kinds) > 1 else None
