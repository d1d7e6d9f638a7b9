"""Counters of money are kept in steps a hundredth as large, so that prices may have six decimals.

Every figure keeps its amount. A budget with more than the new steps can count stops this before
anything is changed.
"""

from django.db import migrations
from django.db.models import F, Q

FINER = 100
# In steps as they were, 36 000 000 of which make one unit of currency.
MOST = 10**9 * 36_000_000
FIGURES = {
    "BudgetHold": ("money", "spent_money"),
    "BudgetPledge": ("money",),
    "BudgetAlert": ("used",),
    "BudgetTrueUp": ("before", "ledger", "difference", "settled"),
    "Budget": ("money", "carried", "granted", "committed_money", "spent_money"),
}


def count_finer(apps, schema_editor):
    """Multiply what is in money; what is in GPU-seconds stays."""
    Budget = apps.get_model("scheduler", "Budget")
    in_money = Budget.objects.filter(money__isnull=False)
    over = Q()
    for name in FIGURES["Budget"]:
        over |= Q(**{f"{name}__gt": MOST})
    found = [str(pk) for pk in in_money.filter(over).order_by("pk").values_list("pk", flat=True)]
    if found:
        raise RuntimeError(
            f"Budgets of money count up to 1000000000 from this version on, and budgets "
            f"{', '.join(found)} have more. Go back to the version before, lower or remove them "
            "there, and start the upgrade again; nothing was changed."
        )
    for model, names in FIGURES.items():
        rows = apps.get_model("scheduler", model).objects.all()
        own = rows.filter(money__isnull=False) if model == "Budget" else rows.filter(
            budget__in=in_money.values("pk")
        )
        own.update(**{name: F(name) * FINER for name in names})


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0072_decisions_name_their_rule")]

    operations = [migrations.RunPython(count_finer)]
