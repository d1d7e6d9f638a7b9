"""Cost centres, and what a team was called and charged to before."""

from __future__ import annotations

from django.db import models


class CostCentre(models.Model):
    """Where the organisation's own books put what a team costs. Its code is for good; the name is
    for people."""

    code = models.CharField(max_length=32, primary_key=True)
    name = models.CharField(max_length=128, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["code"]

    def __str__(self) -> str:
        return self.code


class TeamPast(models.Model):
    """A team's name and cost centre (empty: none) as they were until a moment, exclusive; added
    with every change and never changed, so that what is about a time names them as of then."""

    team = models.ForeignKey("accounts.Team", on_delete=models.CASCADE, related_name="pasts")
    until_at = models.DateTimeField()
    name = models.CharField(max_length=128)
    cost_centre = models.CharField(max_length=32, blank=True)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.name} until {self.until_at:%Y-%m-%d}"
