# The name under which the command and all services are installed.
DISTRIBUTION = "podium-platform"
