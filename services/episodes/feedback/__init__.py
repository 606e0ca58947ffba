"""What people and programs say of ended episodes."""
