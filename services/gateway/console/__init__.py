"""The console: one static page without a build step."""
