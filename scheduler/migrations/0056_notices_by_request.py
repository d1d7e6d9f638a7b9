"""Who was told of an end is kept by request: budgets are raised without a grant."""

import django.db.models.deletion
from django.db import migrations, models


def follow(apps, schema_editor):
    """Each notice to the request its grant is of; of a grant given by hand nobody was told."""
    notice = apps.get_model("scheduler", "GrantNotice")
    request = apps.get_model("scheduler", "QuotaRequest")
    of = request.objects.filter(granted=models.OuterRef("grant")).values("pk")[:1]
    notice.objects.update(request=models.Subquery(of))
    notice.objects.filter(request=None).delete()


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0054_data_on_nodes")]

    operations = [
        migrations.AddField(
            model_name="grantnotice",
            name="request",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="scheduler.quotarequest",
            ),
        ),
        migrations.RunPython(follow, migrations.RunPython.noop),
    ]
