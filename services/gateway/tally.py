from collections.abc import Mapping
from decimal import Decimal

from podium_kit.metering import Dimension

Tally = Mapping[Dimension, Decimal]


def added(*tallies: Tally) -> Tally:
    return {
        dimension: sum((tally.get(dimension, Decimal(0)) for tally in tallies), Decimal(0))
        for dimension in {dimension for tally in tallies for dimension in tally}
    }


def without(whole: Tally, part: Tally) -> Tally:
    return {dimension: whole[dimension] - part.get(dimension, Decimal(0)) for dimension in whole}
