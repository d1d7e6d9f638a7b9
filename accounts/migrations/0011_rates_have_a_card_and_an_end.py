from itertools import pairwise

from django.conf import settings
from django.db import migrations


def put_on_the_list(apps, schema_editor):
    """Rates so far are the organisation's list, and each ends where the next one begins."""
    Rate, RateCard = apps.get_model("accounts", "Rate"), apps.get_model("accounts", "RateCard")
    if not Rate.objects.exists():
        return
    card = RateCard.objects.create(
        name="List prices", currency=settings.TRAINYARD["currency"], decision="approved"
    )
    Rate.objects.update(card=card)
    rows = Rate.objects.filter(decision="approved", is_restatement=False)
    order = rows.order_by("device_model", "kind", "valid_from")
    for rate, following in pairwise(order):
        if (rate.device_model, rate.kind) == (following.device_model, following.kind):
            Rate.objects.filter(pk=rate.pk).update(valid_until=following.valid_from)


def take_off(apps, schema_editor):
    """Rates as they were: until the next one."""
    Rate, RateCard = apps.get_model("accounts", "Rate"), apps.get_model("accounts", "RateCard")
    Rate.objects.update(card=None, valid_until=None)
    RateCard.objects.all().delete()


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0010_rate_cards'),
    ]

    operations = [
        migrations.RunPython(put_on_the_list, take_off),
    ]
