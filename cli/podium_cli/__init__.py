"""The podium command: client of all services, and the platform on one machine."""

# Under this name it is installed, with all services.
DISTRIBUTION = "podium-platform"
