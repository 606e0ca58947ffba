"""Groups of episodes out of records of the stream."""
