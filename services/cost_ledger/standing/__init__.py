"""What operators are alerted by, over every tenant."""
