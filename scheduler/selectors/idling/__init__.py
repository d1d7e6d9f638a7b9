"""GPUs that do little: rules, and what they have done in a team, for a viewer."""
