"""Explanations, verification, signed daily roots and simulation for auditors."""
