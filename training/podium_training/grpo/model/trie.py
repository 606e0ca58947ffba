"""Prefix-shared packing: every distinct prefix of a micro-batch is computed once.

The rows become one tree, laid out depth first in a single sequence. A token sees itself and
its ancestors, so it computes what it would in a row of its own, and a prompt shared by a
group of eight is paid for once. Identical completions become one path.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from itertools import takewhile

import torch
from jaxtyping import Int
from torch import Tensor

from podium_training.grpo.model.samples import Row

# Rows under different grammars or temperatures never share trained tokens: the same prefix
# is then sampled from another distribution.
Root = tuple[str, float]


@dataclass
class _Node:
    token: int
    children: dict[int, "_Node"] = field(default_factory=dict)
    position: int = -1


@dataclass(frozen=True)
class PackedRows:
    """Rows as one tree of `nodes` tokens, of which `tokens` are trained in all rows together."""

    tokens: Int[Tensor, " nodes"]
    """Ids, depth first."""
    depths: Int[Tensor, " nodes"]
    """Position of each token in its rows, from 0."""
    ends: Int[Tensor, " nodes"]
    """Where the subtree of a token ends: it is seen by [own position, end)."""
    predicted_from: Int[Tensor, " tokens"]
    """Position whose output predicts the trained token."""
    targets: Int[Tensor, " tokens"]
    """Ids of the trained tokens, row after row."""
    row: Int[Tensor, " tokens"]
    """Number of the row a trained token belongs to."""

    @property
    def is_path(self) -> bool:
        return bool((self.ends == len(self.tokens)).all())

    def to(self, device: torch.device) -> "PackedRows":
        return PackedRows(*(getattr(self, each.name).to(device) for each in fields(self)))


def pack(rows: Sequence[Row]) -> PackedRows:
    layout = _Layout()
    paths = [layout.insert(row) for row in rows]
    layout.number()
    trained = [_trained(row, path) for row, path in zip(rows, paths, strict=True)]
    return PackedRows(
        tokens=torch.tensor(layout.tokens),
        depths=torch.tensor(layout.depths),
        ends=torch.tensor(layout.ends),
        predicted_from=torch.tensor([place for places in trained for place in places]),
        targets=torch.tensor([token for row in rows for token in row.completion_ids]),
        row=torch.tensor([n for n, places in enumerate(trained) for _ in places]),
    )


def worth_sharing(first: Row, second: Row) -> bool:
    """Returns whether two rows are better computed in one tree than one after the other.

    What they share is computed once; what they do not share is masked, but not skipped, in
    each other's attention.
    """
    if (first.constraint, first.temperature) != (second.constraint, second.temperature):
        return False
    pairs = zip(first.prompt_ids, second.prompt_ids, strict=False)
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return 2 * common >= len(second.prompt_ids)


def _trained(row: Row, path: list[_Node]) -> list[int]:
    start = len(row.prompt_ids) - 1
    return [node.position for node in path[start : start + len(row.completion_ids)]]


class _Layout:
    """Builds the tree, then lays it out."""

    def __init__(self) -> None:
        self._roots: dict[Root, _Node] = {}
        self.tokens: list[int] = []
        self.depths: list[int] = []
        self.ends: list[int] = []

    def insert(self, row: Row) -> list[_Node]:
        """The nodes of a row's tokens; its last token predicts nothing and is left out."""
        node = self._roots.setdefault((row.constraint, row.temperature), _Node(-1))
        path = []
        for token in (*row.prompt_ids, *row.completion_ids[:-1]):
            node = node.children.setdefault(token, _Node(token))
            path.append(node)
        return path

    def number(self) -> None:
        """Depth first, without recursion: rows are thousands of tokens deep."""
        stack = [(child, 0) for root in self._roots.values() for child in root.children.values()]
        open_nodes: list[_Node] = []
        while stack:
            node, depth = stack.pop()
            self._close(open_nodes, depth)
            node.position = len(self.tokens)
            self.tokens.append(node.token)
            self.depths.append(depth)
            self.ends.append(-1)
            open_nodes.append(node)
            stack.extend((child, depth + 1) for child in node.children.values())
        self._close(open_nodes, 0)

    def _close(self, open_nodes: list[_Node], depth: int) -> None:
        while len(open_nodes) > depth:
            self.ends[open_nodes.pop().position] = len(self.tokens)
