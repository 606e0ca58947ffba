"""Units of measurement, by pint."""

from functools import cache
from typing import Annotated, Any

import pint
from pydantic import Field

from tool_adapters.functions.errors import invalid

# Products, quotients and small powers of names: pint would also evaluate 9**9**9.
_FACTOR = r"[A-Za-zµμ°Ω_]+(?: ?(?:\^|\*\*) ?-?[1-9])?"
UNIT_PATTERN = rf"^{_FACTOR}(?: ?[*/ ] ?{_FACTOR})*$"


@cache
def _registry() -> pint.UnitRegistry[Any]:
    return pint.UnitRegistry()


Unit = Annotated[
    str,
    Field(
        description="Unit name or symbol, for example mile, kg, km/h, celsius, gallon.",
        min_length=1,
        max_length=60,
        pattern=UNIT_PATTERN,
    ),
]


def convert_units(
    value: Annotated[float, Field(description="The amount to convert.")],
    from_unit: Unit,
    to_unit: Unit,
) -> dict[str, Any]:
    """An amount in another unit of the same kind, temperatures included."""
    try:
        quantity = _registry().Quantity(value, _registry().parse_units(from_unit))
        converted = quantity.to(_registry().parse_units(to_unit))
    except pint.UndefinedUnitError as error:
        raise invalid(f"{error}; use an English unit name or SI symbol such as km or lb") from error
    except pint.DimensionalityError as error:
        raise invalid(f"{error}; choose two units of the same kind") from error
    except (pint.PintError, ValueError, TypeError, OverflowError, AssertionError) as error:
        raise invalid(f"{from_unit!r} or {to_unit!r} is not a unit pint understands") from error
    return {"value": float(f"{converted.magnitude:.12g}"), "unit": f"{converted.units}"}
