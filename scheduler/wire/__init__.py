"""The language between server and nodes: messages as dataclasses, JSON on the wire."""
