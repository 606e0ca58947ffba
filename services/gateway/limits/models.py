from dataclasses import dataclass

from gateway.errors import InvalidLimits


@dataclass(frozen=True)
class TenantLimits:
    """Over all replicas of the gateway together."""

    # Refill of the bucket, in requests per second.
    requests_per_s: float
    # Requests that may come at once: the size of the bucket.
    burst: int
    # Open requests; a stream is open until its end, a chat until its episode's.
    concurrency: int
    # Episodes that run at once; the episode service counts them.
    running_episodes: int
    # Images and PDF files of requests that are kept, and bytes of them; None: what the episode
    # service allows every tenant.
    files: int | None = None
    file_bytes: int | None = None

    def __post_init__(self) -> None:
        counts = (self.burst, self.concurrency, self.running_episodes)
        kept = (self.files or 0, self.file_bytes or 0)
        if not (self.requests_per_s > 0 and min(counts) >= 1 and min(kept) >= 0):
            raise InvalidLimits
