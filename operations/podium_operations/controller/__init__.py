"""Tools, policies, prices and budgets as Kubernetes objects, applied through the public API."""
