"""What finished episodes say about policies: dry runs and adherence."""
