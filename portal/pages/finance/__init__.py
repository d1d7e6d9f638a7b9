"""Pages of money: reports, statements, exports."""
