"""Every page's address, by noun."""

from allauth.account import urls as allauth_urls
from django.urls import include, path

from portal.pages import (
    compose,
    help,
    home,
    invitations,
    job_tabs,
    jobs,
    search,
    settings,
    welcome,
)
from portal.pages.addresses import links as address_links
from portal.pages.addresses import others as others_addresses
from portal.pages.addresses import own as own_address
from portal.pages.calendar import bookings
from portal.pages.changing.job_change import job_change
from portal.pages.changing.job_options import job_options
from portal.pages.changing.job_quote import job_quote
from portal.pages.cluster.urls import cluster_urls
from portal.pages.composing import templates
from portal.pages.composing.drafts import draft_drop
from portal.pages.composing.start import start
from portal.pages.finance.urls import finance_urls
from portal.pages.idling import keeping as idle_keeping
from portal.pages.inbox import announcements, channels, notifications, watching
from portal.pages.inbox.hours import notification_hours
from portal.pages.kept import outputs
from portal.pages.listing.columns import columns_keep
from portal.pages.listing.glance import job_glance
from portal.pages.listing.marked import jobs_marked
from portal.pages.logs import finding as log_finding
from portal.pages.logs import reading as logs
from portal.pages.logs.course import job_progress
from portal.pages.logs.ranks import job_log_ranks
from portal.pages.measuring import metrics
from portal.pages.ops import users, webhooks
from portal.pages.ops.health import health
from portal.pages.people import audit
from portal.pages.people.urls import (
    delegation_urls,
    group_urls,
    role_urls,
    secret_urls,
    team_urls,
    token_urls,
)
from portal.pages.previewing import previews
from portal.pages.queue import line, turns
from portal.pages.recurring.schedules import schedule_urls
from portal.pages.requests import acts as request_acts
from portal.pages.requests import cancels
from portal.pages.requests import detail as request_pages
from portal.pages.requests import lists as request_lists
from portal.pages.requests import rules as request_rules
from portal.pages.saved import views
from portal.pages.scope.choosing import scope
from portal.pages.sessions import detail as session_pages
from portal.pages.sessions import lists as session_lists
from portal.pages.sets import compare as set_compare
from portal.pages.sets import detail as set_pages
from portal.pages.signing import doors
from portal.pages.signing.entry import sign_in
from portal.pages.using import costs, waste

job_urls = [
    path("", jobs.job_list, name="list"),
    path("new/", compose.job_submit, name="submit"),
    path("new/start/", start, name="start"),
    path("drafts/<int:pk>/drop/", draft_drop, name="draft_drop"),
    path("columns/", columns_keep, name="columns"),
    path("marked/", jobs_marked, name="marked"),
    path("compare/", set_compare.compare, name="compare"),
    path("<int:pk>/", jobs.job_detail, name="detail"),
    path("<int:pk>/glance/", job_glance, name="glance"),
    path("<int:pk>/why/", job_tabs.job_why, name="why"),
    path("<int:pk>/why/options/", job_options, name="options"),
    path("<int:pk>/why/quote/", job_quote, name="quote"),
    path("<int:pk>/why/before/", job_tabs.job_before, name="before"),
    path("<int:pk>/events/", job_tabs.job_events_tab, name="events"),
    path("<int:pk>/metrics/", metrics.job_metrics, name="metrics"),
    path("<int:pk>/metrics/series/", job_tabs.job_series_points, name="series"),
    path("<int:pk>/spec/", job_tabs.job_spec, name="spec"),
    path("<int:pk>/cost/", job_tabs.job_cost_tab, name="cost"),
    path("<int:pk>/logs/", logs.job_logs, name="logs"),
    path("<int:pk>/logs/lines/", logs.job_log_lines, name="log_lines"),
    path("<int:pk>/logs/find/", log_finding.job_log_find, name="log_find"),
    path("<int:pk>/logs/ranks/", job_log_ranks, name="log_ranks"),
    path("<int:pk>/progress/", job_progress, name="progress"),
    path("<int:pk>/logs/download/", logs.job_log_download, name="log_download"),
    path("<int:pk>/files/", outputs.job_outputs, name="outputs"),
    path("<int:pk>/files/<int:number>/", outputs.job_output, name="output"),
    path("<int:pk>/attempts/<int:number>/patch/", outputs.job_patch, name="patch"),
    path("<int:pk>/cancel/", jobs.job_cancel, name="cancel"),
    path("<int:pk>/change/", job_change, name="change"),
    path("<int:pk>/hold/", jobs.job_hold, name="hold"),
    path("<int:pk>/pause/", jobs.job_pause, name="pause"),
    path("<int:pk>/keep/", idle_keeping.job_keep, name="keep"),
    path("<int:pk>/watch/", watching.job_watch, name="watch"),
    path("<int:pk>/release/", jobs.job_release, name="release"),
]

template_urls = [
    path("", templates.template_list, name="list"),
    path("new/", templates.template_new, name="new"),
    path("<slug:slug>/", templates.template_detail, name="detail"),
    path("<slug:slug>/version/", templates.template_version, name="version"),
    path("<slug:slug>/retire/", templates.template_retire, name="retire"),
    path("<slug:slug>/fork/", templates.template_fork, name="fork"),
]

session_urls = [
    path("", session_lists.session_list, name="list"),
    path("new/", compose.session_new, name="new"),
    path("<int:pk>/", session_pages.session_detail, name="detail"),
    path("<int:pk>/connect/", session_pages.session_connect, name="connect"),
    path("<int:pk>/keep/", session_pages.session_keep, name="keep"),
    path("<int:pk>/stop/", session_pages.session_stop, name="stop"),
]

set_urls = [
    path("<int:pk>/", set_pages.set_detail, name="detail"),
    path("<int:pk>/cancel/", set_pages.set_cancel, name="cancel"),
    path("<int:pk>/rerun/", set_pages.set_rerun, name="rerun"),
    path("<int:pk>/watch/", watching.set_watch, name="watch"),
]

booking_urls = [
    path("", bookings.booking_list, name="list"),
    path("<int:pk>/cancel/", bookings.booking_cancel, name="cancel"),
    path("maintenance/", bookings.window_plan, name="window"),
    path("maintenance/<int:pk>/cancel/", bookings.window_cancel, name="window_cancel"),
]

queue_urls = [
    path("", line.queue_list, name="list"),
    path("<slug:pool>/pause/", line.queue_pause, name="pause"),
    path("<slug:pool>/resume/", line.queue_resume, name="resume"),
    path("<slug:pool>/turn/", turns.queue_turn, name="turn"),
]

request_urls = [
    path("", request_lists.request_list, name="list"),
    path("new/", request_lists.request_new, name="new"),
    path("<int:pk>/", request_pages.request_detail, name="detail"),
    path("<int:pk>/submit/", request_acts.request_submit, name="submit"),
    path("<int:pk>/revise/", request_acts.request_revise, name="revise"),
    path("<int:pk>/withdraw/", request_acts.request_withdraw, name="withdraw"),
    path("<int:pk>/comment/", request_acts.request_comment, name="comment"),
    path("<int:pk>/whatif/", request_acts.request_whatif, name="whatif"),
    path("<int:pk>/decide/", request_pages.request_decide, name="decide"),
    path("<int:pk>/assign/", request_acts.request_assign, name="assign"),
    path("<int:pk>/renew/", request_acts.request_renew, name="renew"),
    path("<int:pk>/revoke/", request_acts.request_revoke, name="revoke"),
]

cancel_urls = [
    path("<int:pk>/", cancels.cancel_detail, name="detail"),
    path("<int:pk>/decide/", cancels.cancel_decide, name="decide"),
]

notification_urls = [
    path("", notifications.notification_list, name="list"),
    path("read/", notifications.notification_read, name="read"),
    path("mute/", notifications.notification_mute, name="mute"),
]
channel_urls = [
    path("", channels.channel_list, name="list"),
    path("<int:pk>/", channels.channel_detail, name="detail"),
    path("<int:pk>/<slug:act>/", channels.channel_act, name="act"),
]
webhook_urls = [
    path("", webhooks.webhook_list, name="list"),
    path("<int:pk>/<slug:act>/", webhooks.webhook_act, name="act"),
    path("deliveries/<int:pk>/again/", webhooks.delivery_again, name="again"),
]
user_urls = [
    path("", users.user_list, name="list"),
    path("<str:username>/", users.user_detail, name="detail"),
    path("<str:username>/out/", users.user_out, name="out"),
    path("<str:username>/in/", users.user_in, name="in"),
    path("<str:username>/address/", others_addresses.user_address, name="address"),
    path(
        "<str:username>/address/again/", others_addresses.user_address_again, name="address_again"
    ),
    path(
        "<str:username>/address/cancel/",
        others_addresses.user_address_cancel,
        name="address_cancel",
    ),
]
announcement_urls = [
    path("", announcements.announcement_list, name="list"),
    path("<int:pk>/end/", announcements.announcement_end, name="end"),
]
cost_urls = [
    path("", costs.cost_overview, name="overview"),
    path("waste/", waste.waste_overview, name="waste"),
]
view_urls = [
    path("save/", views.view_save, name="save"),
    path("<int:pk>/", views.view_change, name="change"),
]

# Signing in and out, and one's password. Not allauth's page of e-mail addresses: an address that
# nobody has proven would let its owner in.
_ACCOUNT_NAMES = {
    "account_logout",
    "account_inactive",
    "account_signup",
    "account_change_password",
    "account_reset_password",
    "account_reset_password_done",
    "account_reset_password_from_key",
    "account_reset_password_from_key_done",
}
account_urls = [
    path("login/", sign_in, name="account_login"),
    path("elsewhere/", doors.elsewhere, name="account_elsewhere"),
    path("elsewhere/back/", doors.elsewhere_back, name="account_elsewhere_back"),
    path("elsewhere/again/", doors.elsewhere_again, name="account_elsewhere_again"),
    path("reauthenticate/", doors.reauthenticate, name="account_reauthenticate"),
    path("password/set/", doors.set_password, name="account_set_password"),
    *(each for each in allauth_urls.urlpatterns if each.name in _ACCOUNT_NAMES),
]

urlpatterns = [
    path("", home.home, name="home"),
    path("jobs/", include((job_urls, "jobs"))),
    path("sets/", include((set_urls, "sets"))),
    path("schedules/", include((schedule_urls, "schedules"))),
    path("templates/", include((template_urls, "templates"))),
    path("sessions/", include((session_urls, "sessions"))),
    path("queue/", include((queue_urls, "queue"))),
    path("bookings/", include((booking_urls, "bookings"))),
    path("cluster/", include(cluster_urls)),
    path("ops/health/", health, name="health"),
    path("ops/users/", include((user_urls, "users"))),
    path("ops/webhooks/", include((webhook_urls, "webhooks"))),
    path("teams/", include((team_urls, "teams"))),
    path("invitations/<str:secret>/", invitations.invitation_accept, name="invitation"),
    path("usage/", include((cost_urls, "costs"))),
    path("audit/", include(([path("", audit.audit_list, name="list")], "audit"))),
    path("settings/roles/", include((role_urls, "roles"))),
    path("settings/groups/", include((group_urls, "groups"))),
    path("finance/", include((finance_urls, "finance"))),
    path("settings/delegations/", include((delegation_urls, "delegations"))),
    path("requests/", include((request_urls, "requests"))),
    path("approvals/", request_lists.approvals, name="approvals"),
    path("approvals/approve/", request_lists.approve_several, name="approve_several"),
    path("approvals/cancels/", include((cancel_urls, "cancels"))),
    path("approvals/rules/", request_rules.approval_rules, name="approval_rules"),
    path("approvals/rules/end/", request_rules.approval_rule_end, name="approval_rule_end"),
    path("settings/tokens/", include((token_urls, "tokens"))),
    path("settings/secrets/", include((secret_urls, "secrets"))),
    path("views/", include((view_urls, "views"))),
    path("announcements/", include((announcement_urls, "announcements"))),
    path("notifications/", include((notification_urls, "notifications"))),
    path(
        "settings/notifications/",
        notifications.notification_settings,
        name="notification_settings",
    ),
    path("settings/notifications/when/", notification_hours, name="notification_hours"),
    path("settings/channels/", include((channel_urls, "channels"))),
    path("settings/profile/", settings.profile, name="profile"),
    path("settings/profile/address/", own_address.address_ask, name="address_ask"),
    path("settings/profile/address/again/", own_address.address_again, name="address_again"),
    path("settings/profile/address/cancel/", own_address.address_cancel, name="address_cancel"),
    path("addresses/confirm/<str:secret>/", address_links.address_confirm, name="address_confirm"),
    path("addresses/undo/<str:secret>/", address_links.address_undo, name="address_undo"),
    path("settings/profile/link/", doors.identity_link, name="account_link"),
    path("settings/profile/unlink/", doors.identity_unlink, name="account_unlink"),
    path("settings/theme/", settings.theme, name="theme"),
    path("settings/keys/", settings.keys, name="keys"),
    path("settings/scope/", scope, name="scope"),
    path("settings/preview/", previews.preview, name="preview"),
    path("settings/preview/end/", previews.preview_end, name="preview_end"),
    path("search/", search.search, name="search"),
    path("help/", help.help_page, name="help"),
    path("welcome/", welcome.welcome, name="welcome"),
    path("welcome/demo/", welcome.welcome_demo, name="welcome_demo"),
    path("styleguide/", help.styleguide, name="styleguide"),
    path("accounts/", include(account_urls)),
]
