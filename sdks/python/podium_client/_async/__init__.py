"""The client for asyncio. `make sdk` writes podium_client/_sync from this folder."""
