"""The demonstration's mark, and its removal without a trace."""
