"""What is sent to the operations about people, as in `writing.py`."""

from __future__ import annotations

from typing import Any

SENT: dict[str, tuple[str, dict[str, Any]]] = {
    "post users/<str:username>/deactivate/": ("somebody", {"reason": "left"}),
    "post users/<str:username>/reactivate/": ("somebody", {"reason": "back"}),
    "post users/<str:username>/address/": (
        "somebody",
        {"email": "x@new.example", "how": "now", "reason": "lost"},
    ),
    "delete users/<str:username>/address/": ("somebody", {}),
    "post me/address/": ("", {"email": "x@new.example"}),
    "delete me/address/": ("", {}),
    "post me/address/again/": ("", {}),
}
