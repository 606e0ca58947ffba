# Each module adds its commands to the group's app.
from podium_cli.tools import descriptions, following, imports, recalibrating, testing, trying
from podium_cli.tools.tools import app

__all__ = ["app", "descriptions", "following", "imports", "recalibrating", "testing", "trying"]
