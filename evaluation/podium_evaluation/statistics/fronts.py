"""Cost against accuracy: what no other arm beats in both, and the area below it."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple


class Point(NamedTuple):
    """An arm; the cost may as well be its latency."""

    name: str
    cost: float
    score: float


def pareto_front(points: Sequence[Point]) -> list[Point]:
    """The points that no other beats in cost or score and equals in the other, by cost."""
    front: list[Point] = []
    for point in sorted(points, key=lambda each: (each.cost, -each.score, each.name)):
        if not front or point.score > front[-1].score:
            front.append(point)
    return front


def hull(points: Sequence[Point]) -> list[Point]:
    """The upper concave hull of the front: what a random choice between two arms reaches, too
    (RouterBench, 2403.12031).
    """
    found: list[Point] = []
    for point in pareto_front(points):
        while len(found) > 1 and _below(found[-2], found[-1], point):
            found.pop()
        found.append(point)
    return found


def area(points: Sequence[Point], low: float, high: float) -> float:
    """The mean height of the hull over a range of costs (AIQ).

    It is 0 before the first point and level after the last. Raises ValueError for an empty range.
    """
    if not low < high:
        raise ValueError(f"from {low} to {high} is no range of costs")
    corners = hull(points)
    if not corners:
        return 0.0
    total = 0.0
    ends = [*corners, Point("", max(high, corners[-1].cost), corners[-1].score)]
    for left, right in pairwise(ends):
        start, end = max(left.cost, low), min(right.cost, high)
        if start < end:
            total += (end - start) * (_height(left, right, start) + _height(left, right, end)) / 2
    return total / (high - low)


def _height(left: Point, right: Point, cost: float) -> float:
    share = (cost - left.cost) / (right.cost - left.cost)
    return left.score + share * (right.score - left.score)


def _below(left: Point, middle: Point, right: Point) -> bool:
    rise = (right.score - left.score) * (middle.cost - left.cost)
    return (middle.score - left.score) * (right.cost - left.cost) <= rise
