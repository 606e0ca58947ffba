"""What an OpenAI client reads while an episode runs."""

from gateway.convert import event_from_proto
from gateway.models import ProgressNote
from podium.episodes.v1 import episode_pb2


def progress_line(name: str) -> str:
    """The line about an empty event of that name."""
    event = episode_pb2.EpisodeEvent()
    getattr(event, name).SetInParent()
    progress = event_from_proto(event)
    assert isinstance(progress, ProgressNote)
    return progress.line


def test_only_the_start_speaks_of_allowed_tools() -> None:
    events = {field.name for field in episode_pb2.EpisodeEvent.DESCRIPTOR.oneofs[0].fields}
    speaking = {
        name for name in events - {"finished"} if "tools are allowed" in progress_line(name)
    }
    assert speaking == {"started"}
