from django.db import migrations
from django.utils import timezone


def open_books(apps, schema_editor):
    """What a budget began with: what is spent and no settled hold has spent."""
    Budget = apps.get_model("scheduler", "Budget")
    BudgetHold = apps.get_model("scheduler", "BudgetHold")
    BudgetTrueUp = apps.get_model("scheduler", "BudgetTrueUp")
    now = timezone.now()
    for budget in Budget.objects.order_by("pk").iterator():
        name = "spent_s" if budget.money is None else "spent_money"
        settled = sum(
            BudgetHold.objects.filter(budget=budget, settled_at__isnull=False)
            .exclude(**{name: None})
            .values_list(name, flat=True)
            .iterator()
        )
        opening = getattr(budget, name) - settled
        if opening:
            BudgetTrueUp.objects.create(
                budget=budget,
                is_opening=True,
                at=now,
                until_s=int(now.timestamp()),
                difference=opening,
            )


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0062_budget_true_ups")]

    operations = [migrations.RunPython(open_books, migrations.RunPython.noop)]
