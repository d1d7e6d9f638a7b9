"""What nobody held and what things have cost: split, written off, recovered, refunded."""
