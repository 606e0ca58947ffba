"""Files that an episode's sandboxed code keeps between calls: bytes, never opened here."""
