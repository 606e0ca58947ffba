"""Activities of a turn: decide, invoke, judge, finish."""
