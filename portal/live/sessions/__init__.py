"""Interactive sessions: nodes' tunnels end here, and people come in through them.

One process holds a node's tunnel, and only it can reach the node's sessions. With several web
processes, `/s/` and the tunnel's address lead to one of them (deploy/nginx.conf).
"""
