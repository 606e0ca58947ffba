"""What a cluster must serve before the chart's integrations work there."""
