"""The page of who decides on which requests."""

from __future__ import annotations

import pytest
from django.utils import timezone

from tests import requesting, scenes

pytestmark = [pytest.mark.django_db, pytest.mark.once]


def test_who_decides_is_said_laid_down_and_ended(
    client, root, alice, lead, project, django_assert_max_num_queries
):
    scenes.build_cluster(root, nodes=1, gpus=4)
    asked = requesting.ask(alice, project, now=timezone.now())
    client.force_login(root)
    requesting.decide(lead, asked, "ask", comment="For how long?", now=timezone.now())
    address = "/approvals/rules/"
    sent = {"kind": "guaranteed", "sla_hours": "12", "most_days": "60", "auto_up_to": "2"}
    page = client.post(address, sent, follow=True).content.decode()
    assert "holds for guaranteed GPUs" in page and "nobody at all up to 2 for a team" in page
    again = client.post(address, sent)
    assert again.status_code == 422 and "holds already" in again.content.decode()
    wrong = client.post(address, {**sent, "always_admin": "on"})
    assert wrong.status_code == 422 and wrong.context["form"].errors["auto_up_to"]
    with django_assert_max_num_queries(8):
        page = client.get(address, {"kind": "guaranteed"})
    usual = next(one for one in page.context["desk"].held if one.kind == "guaranteed")
    assert (usual.source, usual.decided) == ("own", 0)
    assert page.context["form"].initial["sla_hours"] == 12
    page = client.post(f"{address}end/", {"kind": "guaranteed"}, follow=True).content.decode()
    assert "from now on all is as usual" in page
    assert f'href="/requests/{asked.pk}/"' in page
    assert client.post(f"{address}end/", {"kind": "guaranteed"}).status_code == 409
    client.force_login(lead)
    assert client.get(address).status_code == 403
