"""Checks of the APIs that a cluster must serve for the chart's integrations."""
