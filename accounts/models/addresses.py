"""How mail addresses of people change: asked for, confirmed from the new one, taken back."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q


class AddressChange(models.Model):
    """Somebody's mail address is to become `new_email`, or became it.

    Open until it is confirmed or ends; one at a time. `link_hash` is of the secret in the last
    letter to the new address, good until `expires_at`; `undo_hash` of the one that went to the old
    address, null where there is none. The secrets themselves are never stored. `ended_at`: it was
    cancelled, another one took its place, or it was taken back.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="address_changes"
    )
    old_email = models.EmailField(blank=True)
    new_email = models.EmailField()
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    asked_at = models.DateTimeField()
    link_hash = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()
    undo_hash = models.CharField(max_length=64, unique=True, null=True)
    confirmed_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["user"],
                name="address_change_one_open",
                condition=Q(confirmed_at=None, ended_at=None),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.old_email or 'no address'} to {self.new_email}"

    @property
    def is_own(self) -> bool:
        """Whether the person asked for it themselves."""
        return self.asked_by_id == self.user_id
