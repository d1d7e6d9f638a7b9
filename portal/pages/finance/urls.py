"""The addresses below `/finance/`."""

from django.urls import path

from portal.pages.finance import (
    adjustments,
    budgets,
    centres,
    endings,
    periods,
    prices,
    reports,
    spending,
    statements,
    terms,
)
from portal.pages.finance.files import exports, focus, schedules

finance_urls = [
    path("", reports.index, name="index"),
    path("reports/<slug:slug>/", reports.report, name="report"),
    path("statements/<int:number>/", statements.statement, name="statement"),
    path(
        "statements/<int:number>/<slug:act>/",
        statements.statement_act,
        name="statement_act",
    ),
    path("schedules/", schedules.schedules, name="schedules"),
    path("schedules/<int:pk>/end/", schedules.schedule_end, name="schedule_end"),
    path("exports/", exports.export_list, name="exports"),
    path("exports/<int:pk>/", exports.export_file, name="export_file"),
    path("focus/", focus.focus_list, name="focus"),
    path("focus/<str:period>/<str:version>/", focus.focus_download, name="focus_download"),
    path("periods/", periods.period_list, name="periods"),
    path("periods/<str:month>/<slug:act>/", periods.period_act, name="period_act"),
    path("adjustments/", adjustments.adjustment_list, name="adjustments"),
    path("adjustments/<int:pk>/<slug:act>/", adjustments.adjustment_act, name="adjustment_act"),
    path("prices/", prices.price_list, name="prices"),
    path("prices/<int:pk>/end/", endings.price_end, name="price_end"),
    path("prices/ends/<int:pk>/<slug:act>/", endings.end_act, name="end_act"),
    path("prices/cards/<int:pk>/end/", endings.card_end, name="card_end"),
    path("prices/cards/", prices.card_new, name="card_new"),
    path("prices/cards/<int:pk>/<slug:act>/", prices.card_act, name="card_act"),
    path("prices/<int:pk>/<slug:act>/", prices.price_act, name="price_act"),
    path("centres/", centres.centre_list, name="centres"),
    path("terms/", terms.terms_list, name="terms"),
    path("terms/<int:pk>/<slug:act>/", terms.terms_act, name="terms_act"),
    path("assets/", spending.asset_list, name="assets"),
    path("assets/<int:pk>/retire/", spending.asset_retire, name="asset_retire"),
    path("assets/<int:pk>/<slug:act>/", spending.asset_act, name="asset_act"),
    path("costs/", spending.cost_list, name="costs"),
    path("costs/<int:pk>/<slug:act>/", spending.cost_act, name="cost_act"),
    path("budgets/", budgets.budget_list, name="budgets"),
    path("budgets/<int:pk>/remove/", budgets.budget_remove, name="budget_remove"),
]
