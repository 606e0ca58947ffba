"""Operations on a platform, shared by the `podium` command and the chart's Jobs."""

# The name under which the command and all services are installed.
DISTRIBUTION = "podium-platform"
