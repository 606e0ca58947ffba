"""Calls that wait for a person's approval, over all episodes of a tenant."""
