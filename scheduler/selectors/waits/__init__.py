"""How long people wait for a pool, by hour, and who went before whom."""
