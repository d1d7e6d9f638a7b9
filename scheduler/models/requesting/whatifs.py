"""What would have happened with more quota: simulations as evidence of a decision."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from scheduler.models.requesting.requests import QuotaRequest


class WhatIf(models.Model):
    """One simulation for a revision of a request and an amount.

    `progress`: waiting, running, done, empty (no history to replay) or failed; `done_steps` of
    `all_steps` are through. `digest` is SHA-256 over the canonical JSON of question and answer;
    `engine` says which code gave it. `claimed_at`: when its worker last said that it is at work.
    """

    request = models.ForeignKey(QuotaRequest, on_delete=models.CASCADE, related_name="whatifs")
    revision = models.PositiveIntegerField()
    amount = models.PositiveIntegerField()
    valid_until = models.DateTimeField()
    progress = models.CharField(max_length=8, default="waiting")
    done_steps = models.PositiveSmallIntegerField(default=0)
    all_steps = models.PositiveSmallIntegerField(default=2)
    answer = models.JSONField(default=dict, blank=True)
    digest = models.CharField(max_length=64, blank=True)
    engine = models.CharField(max_length=64, blank=True)
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    created_at = models.DateTimeField()
    claimed_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
