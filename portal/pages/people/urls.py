"""The addresses of teams, and of what one is and has oneself."""

from django.urls import path

from portal.pages import teams
from portal.pages.idling.rules import project_idle
from portal.pages.people import (
    board,
    delegations,
    groups,
    prices,
    quota,
    retention,
    roles,
    secrets,
    services,
    tokens,
    tree,
)

team_urls = [
    path("", teams.team_list, name="list"),
    path("<slug:slug>/", board.team_board_page, name="board"),
    path("<slug:slug>/members/", teams.team_detail, name="detail"),
    path("<slug:slug>/name/", teams.team_rename, name="rename"),
    path("<slug:slug>/cost-centre/", teams.team_cost_centre, name="cost_centre"),
    path("<slug:slug>/projects/", teams.team_project_create, name="project_create"),
    path(
        "<slug:slug>/projects/<slug:project>/archive/",
        teams.team_project_archive,
        name="project_archive",
    ),
    path(
        "<slug:slug>/projects/<slug:project>/retention/",
        retention.project_retention,
        name="retention",
    ),
    path("<slug:slug>/projects/<slug:project>/idle/", project_idle, name="idle"),
    path("<slug:slug>/invite/", teams.team_invite, name="invite"),
    path("<slug:slug>/invitations/<int:pk>/revoke/", teams.team_invitation_revoke, name="revoke"),
    path("<slug:slug>/members/<int:pk>/role/", teams.team_role, name="role"),
    path("<slug:slug>/members/<int:pk>/remove/", teams.team_remove, name="remove"),
    path("<slug:slug>/leave/", teams.team_leave, name="leave"),
    path("<slug:slug>/below/", tree.team_below, name="below"),
    path("<slug:slug>/move/", tree.team_move, name="move"),
    path("<slug:slug>/prices/", prices.team_prices, name="prices"),
    path("<slug:slug>/quota/", quota.team_quota_page, name="quota"),
    path("<slug:slug>/quota/budget/", quota.team_budget, name="budget"),
    path("<slug:slug>/services/", services.team_services, name="services"),
    path("<slug:slug>/services/<int:pk>/token/", services.service_token, name="service_token"),
    path("<slug:slug>/services/<int:pk>/end/", services.service_end, name="service_end"),
    path(
        "<slug:slug>/services/<int:pk>/tokens/<int:token>/revoke/",
        services.service_revoke,
        name="service_revoke",
    ),
]

role_urls = [
    path("", roles.role_list, name="list"),
    path("confirm/", roles.role_confirm, name="confirm"),
    path("take/", roles.role_take, name="take"),
]

group_urls = [
    path("", groups.group_list, name="list"),
    path("<int:pk>/remove/", groups.group_remove, name="remove"),
]

delegation_urls = [
    path("", delegations.delegation_list, name="list"),
    path("<int:pk>/end/", delegations.delegation_end, name="end"),
]

token_urls = [
    path("", tokens.token_list, name="list"),
    path("<int:pk>/revoke/", tokens.token_revoke, name="revoke"),
]

secret_urls = [
    path("", secrets.secret_list, name="list"),
    path("<int:pk>/delete/", secrets.secret_delete, name="delete"),
]
