"""Spend reports, read from daily sums and the journal's tail."""
