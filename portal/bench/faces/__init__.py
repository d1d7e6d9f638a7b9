"""What pages cost: at the server with years of jobs behind them, and in the browser."""
