"""What a run says of itself: metrics of its steps, gauges, how far it is."""
