"""What prices and shares depend on besides rates: terms, guarantees, costs, and nightly checks."""
