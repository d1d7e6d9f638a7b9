"""The engine alone on clusters drawn at random: what one decision costs."""
