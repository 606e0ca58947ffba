"""The trajectory stream: records, relay and reconciler."""
