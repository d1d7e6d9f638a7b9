"""At closes and between them: what pools cost, what is recovered, what goes back to teams."""
