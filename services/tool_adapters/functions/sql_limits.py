"""Limits of a query, for the service and for the process that runs it."""

QUERY_TIMEOUT_S = 5.0
TOO_LONG = f"the query ran longer than {QUERY_TIMEOUT_S:g} s; filter or aggregate more"
TOO_LARGE = "the query needs too much memory; filter or aggregate more"
