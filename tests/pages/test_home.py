"""Home: one's own jobs, and what needs one's attention."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from scheduler.selectors.sharing.bars import budget_bars
from scheduler.selectors.sharing.budgets import budget_views
from scheduler.services.changing.by_hand import hold_job
from scheduler.services.errors import Forbidden, Invalid
from scheduler.services.inbox import announce, end_announcement
from scheduler.services.nodes import drain_node
from scheduler.services.sharing.budgets import set_budget
from scheduler.services.sharing.limits import set_quota
from scheduler.services.waits import record_waits
from scheduler.states import EndReason
from tests import requesting, scenes
from tests.scenes import ended, running, start, submit, sync

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
OUTCOMES = {0: EndReason.COMPLETED, 3: EndReason.EXIT_CODE}


def _home(client, user):
    client.force_login(user)
    return client.get("/").content.decode()


def test_a_newcomer_is_offered_the_sample(client, alice, project):
    page = _home(client, alice)
    assert "Run the sample" in page
    assert "?from=sample" in page


def test_running_waiting_and_finished_jobs_each_in_their_place(client, root, alice, project):
    cluster = scenes.build_cluster(root, gpus=4)
    now = timezone.now()
    done = submit(alice, project, name="done", now=now)
    attempt = start(done, cluster.node(1), now=now)
    sync(cluster.node(1), ended(attempt), now=now)
    live = start(submit(alice, project, name="live", now=now), cluster.node(1), now=now)
    sync(cluster.node(1), running(live), now=now)
    hold_job(actor=alice, job=submit(alice, project, name="parked", now=now))
    page = _home(client, alice)
    assert page.index("live") < page.index("Held by Alice") < page.index("Exit code 0.")


def test_nobody_sees_another_teams_jobs(client, root, alice, carol, project):
    scenes.build_cluster(root)
    submit(alice, project, name="secret-plan")
    assert "secret-plan" not in _home(client, carol)


def test_operators_see_nodes_in_trouble_and_members_do_not(client, root, operator, alice, project):
    cluster = scenes.build_cluster(root)
    drain_node(actor=root, node=cluster.node(1), reason="fans")
    assert "takes no work" in _home(client, operator)
    assert "takes no work" not in _home(client, alice)


def test_the_same_queries_for_few_and_many_jobs(
    client, root, alice, project, django_assert_max_num_queries
):
    scenes.build_cluster(root)
    counts = []
    for size in (1, 8):
        for _ in range(size):
            submit(alice, project)
        client.force_login(alice)
        with django_assert_max_num_queries(17) as captured:
            client.get("/")
        counts.append(len(captured.captured_queries))
    assert counts[0] == counts[1]


def test_announcements_quotas_and_budgets_stand_around_the_lists(client, root, alice, team):
    now = timezone.now()
    row = announce(actor=root, text="Rack 3 <moves>", until_at=now + timedelta(hours=1))
    announce(actor=root, text="Later", from_at=now + timedelta(hours=1), until_at=now + DAY)
    set_quota(actor=root, owner=team, guaranteed=2, maximum=6)
    set_budget(actor=root, owner=team, gpu_hours=5, valid_from=now, valid_until=now + DAY)
    page = _home(client, alice)
    assert "Rack 3 &lt;moves&gt;" in page and "Later" not in page
    assert "2 guaranteed" in page and "GPU-hours" in page
    end_announcement(actor=root, announcement=row)
    assert "Rack 3" not in _home(client, alice)
    with pytest.raises(Forbidden):
        announce(actor=alice, text="x", until_at=now + DAY)
    with pytest.raises(Invalid, match="ahead"):
        announce(actor=root, text="x", until_at=now - DAY)


def test_a_budget_counts_what_runs_as_the_page_of_budgets_does(client, root, alice, team, project):
    now = scenes.NOON
    set_budget(
        actor=root, owner=team, gpu_hours=4, valid_from=now - DAY, valid_until=now + DAY, now=now
    )
    cluster = scenes.build_cluster(root, gpus=1)
    attempt = start(submit(alice, project, name="half", time_limit="2h"), cluster.node(1))
    (bar,) = budget_bars(alice, now=now)
    (view,) = budget_views(alice, now=now)
    assert bar.spent == view.used_percent == 0 and bar.committed == 50
    later = attempt.assigned_at + timedelta(hours=1)
    (bar,), (view,) = budget_bars(alice, now=later), budget_views(alice, now=later)
    assert (bar.spent, bar.committed) == (view.used_percent, 25) == (25, 25) and not bar.is_out


def test_each_role_has_its_own_first_card(client, finance, root, lead, alice, project):
    requesting.ask(alice, project, now=timezone.now())
    assert "Months to close" in _home(client, root)
    page = _home(client, lead)
    assert "1 request waits" in page and "Months to close" not in page
    assert "waits for you" not in _home(client, alice)


def test_sessions_show_their_clock_and_waiting_jobs_their_start(client, root, alice, project):
    cluster = scenes.build_cluster(root, gpus=1)
    now = timezone.now()
    told = int(now.timestamp()) + 3600
    shell = {"app": "shell", "idle_stop": "10m"}
    began = now - timedelta(minutes=6)
    job = submit(alice, project, name="lab", script="", session=shell, now=began)
    attempt = start(job, cluster.node(1), now=began)
    sync(cluster.node(1), running(attempt), now=began)
    waits = submit(alice, project, name="next", now=now)
    facts = {"ahead": 2, "start_p50_at": told, "start_p90_at": told + 60}
    record_waits([(waits.pk, "capacity_busy", facts)], now=now)
    page = _home(client, alice)
    assert "Sessions <span" in page and "if nobody uses it" in page and "I still need it" in page
    assert "place 3" in page and 'class="win"' in page and "start unknown" not in page
    assert "Start, next 3 h" in page


def test_what_stands_beside_the_lists_comes_alone_to_be_renewed(client, root, alice, team, project):
    scenes.build_cluster(root)
    set_quota(actor=root, owner=team, guaranteed=2, maximum=6)
    client.force_login(alice)
    page = client.get("/").content.decode()
    side = client.get("/", {"part": "side"}).content.decode()
    assert side.strip().startswith("<aside") and "Quota and budgets" in side
    assert "2 guaranteed" in side and "vision/digits" in side
    assert 'id="home-side"' in page and "data-every-s" in side


def test_active_jobs_say_where_they_are_until_when_and_what_all_cost_an_hour(
    client, root, alice, bob, project
):
    cluster = scenes.build_cluster(root, nodes=2, gpus=4)
    now = timezone.now()
    for number, gpus in ((1, 3), (2, 1)):
        job = submit(alice, project, gpus_per_node=gpus, time_limit="2h", now=now)
        attempt = start(job, cluster.node(number), now=now)
        sync(cluster.node(number), running(attempt), now=now)
    page = _home(client, alice)
    assert "4 GPUs · 14.40 EUR an hour" in page
    for number in (1, 2):
        assert f"vision/digits · {cluster.node(number).name}" in page
    ends = timezone.localtime(now + timedelta(hours=2))
    assert f"{ends:%H:%M}</time>" in page.partition("ends by")[2][:160]
    assert "an hour" not in _home(client, bob)


def test_windows_share_an_axis_that_shows_the_latest_of_them(client, root, alice, project):
    scenes.build_cluster(root, gpus=1)
    now = timezone.now()
    told = int(now.timestamp())
    hours = ((1, 2), (20, 30))
    for first, last in hours:
        job = submit(alice, project, now=now)
        facts = {"start_p50_at": told + first * 3600, "start_p90_at": told + last * 3600}
        record_waits([(job.pk, "capacity_busy", facts)], now=now)
    unknown = submit(alice, project, name="nobody-knows", now=now)
    record_waits([(unknown.pk, "capacity_busy", {})], now=now)
    page = _home(client, alice)
    assert "Start, next 3 days" in page and page.count('class="win"') == len(hours)
    # 20 of 72 hours from now, on an axis of a thousand.
    assert '<rect class="w50" x="278"' in page or '<rect class="w50" x="277"' in page
    assert "start unknown" in page


def test_an_array_is_one_row_with_its_counts(client, root, alice, bob, project):
    cluster = scenes.build_cluster(root, gpus=4)
    now = timezone.now()
    sweep = submit(alice, project, name="sweep", array="0-5%4", now=now).job_set
    tasks = list(sweep.tasks.order_by("array_index"))
    for number, code in enumerate((0, 3, 0)):
        attempt = start(tasks[number], cluster.node(1), now=now)
        sync(cluster.node(1), ended(attempt, reason=OUTCOMES[code], exit_code=code), now=now)
    for task in tasks[3:5]:
        attempt = start(task, cluster.node(1), now=now)
        sync(cluster.node(1), running(attempt), now=now)
    page = _home(client, alice)
    # Under what is active and under what waits; it has not finished.
    address = reverse("sets:detail", args=[sweep.pk])
    assert page.count(f'href="{address}"') == page.count("sweep") == 2
    assert "3 of 6 ended, 1 failed" in page and "2 tasks now" in page and "1 task waits" in page
    assert "2 GPUs · 7.20 EUR an hour" in page and "Recently finished" not in page
    for task in tasks[3:5]:
        sync(cluster.node(1), ended(task.attempts.get()), now=now)
    attempt = start(tasks[5], cluster.node(1), now=now)
    sync(cluster.node(1), ended(attempt), now=now)
    page = _home(client, alice)
    assert "Recently finished" in page and page.count("sweep") == 1
    assert ">6 tasks<" in page and ">5 succeeded<" in page and ">1 failed<" in page
    assert "sweep" not in _home(client, bob)


def test_leads_and_operators_have_a_card_of_their_own(client, root, lead, operator, alice, team):
    scenes.build_cluster(root, gpus=4)
    page = _home(client, lead)
    assert f">{team.name}</bdi>.</b> What is held" in page and "You lead" in page
    assert f'href="{reverse("teams:board", args=[team.slug])}">Board</a>' in page
    assert "GPUs are held" not in page
    page = _home(client, operator)
    assert "You are in no team, so no jobs of yours" in page and "Ask a team lead" not in page
    assert "0 of 4 GPUs are held." in page and "No job waits." in page and "You lead" not in page
    page = _home(client, alice)
    assert "You lead" not in page and "GPUs are held" not in page
    # An administrator may manage every team, and leads none.
    assert "You lead" not in _home(client, root)
