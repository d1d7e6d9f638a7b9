"""Making room for a job: who is asked to stop, and what is kept for whom until they have."""
