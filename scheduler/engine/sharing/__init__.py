"""How accounts share the cluster: who is next among them, and what each may hold."""
