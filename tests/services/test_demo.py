"""The demonstration: it comes through the services, its books hold, and it goes without a trace."""

from __future__ import annotations

import itertools
from datetime import timedelta
from io import StringIO

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.utils import timezone

from accounts.models import (
    AuditEvent,
    DemoMark,
    OrganisationRole,
    Project,
    Rate,
    RateKind,
    RoleGrant,
    Team,
    User,
)
from accounts.services import create_team, rename_team, take_role
from accounts.services.sealing import verify_audit
from portal.management import seeding
from portal.management.demo.people import people
from portal.management.demo.plan import DAY_S, GPUS, RECENT_DAYS, draw_plan
from scheduler.models import (
    DayOfUse,
    DayOfWaste,
    DaysCounted,
    DaysSummed,
    Device,
    Job,
    Period,
    QuotaRequest,
)
from scheduler.selectors.requesting import waiting_for
from scheduler.services.books import verify_ledger
from scheduler.services.demo.removing import remove_demo
from scheduler.services.errors import Conflict, NotFound
from scheduler.services.timeline.days import count_days
from scheduler.services.timeline.wasted_days import sum_days
from tests import scenes

START_S = 1_790_000_000


def counts() -> dict[str, int]:
    """Rows of every table."""
    models = apps.get_models(include_auto_created=True)
    return {model._meta.db_table: model._default_manager.count() for model in models}


def seed(jobs: int = 12, **more: object) -> str:
    out = StringIO()
    call_command("seed_demo", by="root", jobs=jobs, stdout=out, **more)
    return out.getvalue()


class TestPlan:
    def test_the_same_seed_gives_the_same_story(self):
        one, other, third = (
            draw_plan(number, START_S, START_S + 40 * DAY_S, jobs=120, owners=30)
            for number in (1, 1, 2)
        )
        assert one == other
        assert one != third

    @pytest.mark.parametrize("number", range(5))
    def test_no_device_has_two_holders(self, number):
        plan = draw_plan(number, START_S, START_S + 40 * DAY_S, jobs=200, owners=30)
        held: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for job in plan.jobs:
            assert job.end_s == 0 or job.submit_s < job.start_s < job.end_s < START_S + 40 * DAY_S
            for node, devices in job.places:
                assert len(devices) == job.gpus
                for device in devices:
                    held.setdefault((node, device), []).append((job.start_s, job.end_s))
        for outage in plan.outages:
            for device in range(GPUS):
                held[outage.node, device].append((outage.start_s, outage.end_s))
        for spans in held.values():
            spans.sort()
            assert all(end < start for (_, end), (start, _) in itertools.pairwise(spans))

    def test_a_few_jobs_are_of_earlier_months_and_the_rest_of_thirty_days(self):
        end_s = START_S + 55 * DAY_S
        plan = draw_plan(1, START_S, end_s, jobs=220, owners=30)
        recent = [job for job in plan.jobs if job.submit_s >= end_s - RECENT_DAYS * DAY_S]
        assert (len(plan.jobs), len(recent)) == (220, 192)
        assert len({(end_s - job.submit_s) // DAY_S for job in recent}) == RECENT_DAYS
        assert sum(1 for job in plan.jobs if not job.start_s) >= 4

    def test_there_are_forty_people_in_five_teams(self):
        everybody = people()
        assert len(everybody) == len({person.username for person in everybody}) == 40
        assert {person.team for person in everybody} == {None, 0, 1, 2, 3, 4}


@pytest.mark.django_db
class TestSeeding:
    def test_it_comes_answers_holds_and_goes_without_a_trace(self, root, team, client):
        before = counts()
        assert "40 people, 5 teams, 8 nodes" in seed()
        assert Team.objects.filter(slug__startswith="demo-", parent=None).count() == 5
        assert Team.objects.get(slug="demo-manipulation").parent.slug == "demo-robotics"
        assert Device.objects.count() == 64
        assert Period.objects.filter(state="closed").count() == 2
        assert QuotaRequest.objects.count() == 3
        centres = Team.objects.filter(parent=None).values_list("cost_centre", flat=True)
        assert len(set(centres)) == 4 and None in centres
        self.look_at_inboxes(client)
        assert set(Rate.objects.values_list("kind", flat=True)) == set(RateKind.values)
        assert verify_ledger().breaks == ()
        call_command("seal_audit", stdout=StringIO())
        assert verify_audit().broken == ""
        for username, pages in (
            ("demo-elif", ("/", "/jobs/", "/teams/demo-perception/", "/audit/")),
            ("demo-ada", ("/usage/", "/finance/", "/finance/centres/")),
            ("demo-cleo", ("/cluster/nodes/", "/cluster/nodes/demo-03/")),
            ("demo-dario", ("/audit/",)),
        ):
            client.force_login(User.objects.get(username=username))
            for page in pages:
                assert client.get(page).status_code == 200, page
            client.logout()
        call_command("seed_demo", remove=True, stdout=StringIO())
        after = counts()
        after["django_session"] = before["django_session"]
        # Kept, so that no token of the lease and no turn of who sums is ever used twice.
        for kept in ("scheduler_schedulerlease", "scheduler_hourssummed"):
            assert after.pop(kept) == 1 and not before.pop(kept)
        assert after == before
        assert verify_ledger().entries == 0
        assert verify_audit().broken == ""

    def look_at_inboxes(self, client):
        """Each request waits with somebody who did not ask, and their page shows it."""
        for request in QuotaRequest.objects.all():
            leads = User.objects.filter(memberships__team=request.team, memberships__role="lead")
            (lead,) = leads.exclude(pk=request.asked_by_id)
            assert request.pk in {row.pk for row in waiting_for(lead)}
            client.force_login(lead)
            assert f"/requests/{request.pk}/" in client.get("/approvals/").content.decode()

    def test_real_work_keeps_it_from_going(self, root, team):
        seed(jobs=4)
        project = Project.objects.get(team__slug="demo-protein")
        job = scenes.submit(root, project, pool="demo-h100")
        was = counts()
        with pytest.raises(Conflict, match=f"Job {job.pk} belongs"):
            remove_demo()
        assert counts() == was
        Job.objects.filter(pk=job.pk).update(owner=User.objects.get(username="demo-noor"))
        rename_team(actor=root, team=team, name="Sight")
        events = AuditEvent.objects.count()
        assert remove_demo().kept_events > 100
        assert AuditEvent.objects.count() == events + 1
        assert AuditEvent.objects.latest("pk").action == "demo.remove"
        assert not Team.objects.filter(slug__startswith="demo-").exists()
        with pytest.raises(NotFound):
            remove_demo()

    def test_it_does_not_mix_with_real_work(self, root, alice, project):
        cluster = scenes.build_cluster(root, nodes=0)
        scenes.add_node(cluster, "old", 2, now=timezone.now() - timedelta(days=40))
        scenes.submit(alice, project)
        for more in ({}, {"anyway": True}):
            with pytest.raises(CommandError, match="real use" if not more else "of its own"):
                seed(**more)
        assert not DemoMark.objects.exists()
        assert cluster.nodes

    def test_only_an_administrator_seeds_and_only_once(self, root, alice):
        with pytest.raises(CommandError, match="no administrator"):
            call_command("seed_demo", by="alice")
        create_team(actor=root, name="Perception")
        seed(jobs=0)
        with pytest.raises(CommandError, match="already"):
            seed()


@pytest.mark.django_db
def test_the_small_world_has_somebody_for_the_books_and_an_auditor(root, client):
    made = {account.username: account.words for account in seeding.seed_demo(root)}
    assert made["frida"] == "keeps the books" and "audits" in made["amir"]
    for name, audit, books in (("frida", 403, 200), ("amir", 200, 200), ("alice", 403, 403)):
        client.force_login(User.objects.get(username=name))
        answers = [client.get(path).status_code for path in ("/audit/", "/finance/prices/")]
        assert answers == [audit, books]
    take_role(actor=root, user=User.objects.get(username="frida"), role=OrganisationRole.FINANCE)
    assert seeding.seed_demo(root) == []
    assert not RoleGrant.objects.filter(user__username="frida").exists()


@pytest.mark.long
@pytest.mark.django_db
def test_the_whole_story_holds(root):
    before = counts()
    seed(jobs=220)
    assert verify_ledger().breaks == ()
    assert count_days(now=timezone.now()) and DayOfUse.objects.exists()
    assert sum_days(now=timezone.now()) and DayOfWaste.objects.exists()
    remove_demo()
    DaysCounted.objects.all().delete()
    DaysSummed.objects.all().delete()
    assert counts() == before | {"scheduler_schedulerlease": 1}
