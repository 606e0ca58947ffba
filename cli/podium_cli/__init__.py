"""The podium command: client of all services, and the platform on one machine."""
