"""What a new platform is given: by the chart's Job on a cluster, by `podium up` on one machine."""
