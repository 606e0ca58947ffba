# Written by `make sdk` from podium_client/_async; do not edit.
"""The client for asyncio. `make sdk` writes podium_client/_sync from this folder."""
