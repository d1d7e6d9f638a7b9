"""Pages of rules for GPUs that do little, and the button of who still needs a job."""
