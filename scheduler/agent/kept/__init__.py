"""What an agent keeps on its disk between its starts, and when it goes."""
