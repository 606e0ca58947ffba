"""Records that are kept aside from the trajectory stream, and their way back."""
