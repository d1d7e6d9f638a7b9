"""How an attempt is started, limited, watched and killed. Standard library only."""
