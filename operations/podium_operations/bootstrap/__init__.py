"""The contents of a new platform, made by the chart's Job and by `podium up`."""
