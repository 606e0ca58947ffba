"""From records of the stream to groups of episodes."""
