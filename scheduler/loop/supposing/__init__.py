"""What would be if a job were submitted, or asked for something else: nobody writes it."""
