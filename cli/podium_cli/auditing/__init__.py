"""What `podium audit` shows, writes and checks on this machine."""
