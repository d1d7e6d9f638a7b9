"""`/api/v1/…`, one line for each address."""

from __future__ import annotations

from django.urls import URLPattern, path

from portal.api.docs import Schema
from portal.api.holding import holding
from portal.api.v1 import cluster, costs, job_answers, job_output, job_parts, jobs, people, sets
from portal.api.v1.finance import reports, terms
from portal.api.v1.organisation import roles
from portal.api.v1.rules import budgets, licences, policies, quotas, windows
from portal.api.v1.finance import reports
from portal.api.v1.rules import licences, policies, quotas, windows

urlpatterns: list[URLPattern] = [
    path("jobs/", jobs.Jobs.as_view(), name="jobs"),
    path("jobs/bulk/", jobs.JobsInBulk.as_view(), name="jobs_bulk"),
    path("jobs/<int:pk>/", holding(jobs.JobByNumber.as_view()), name="job"),
    path("jobs/<int:pk>/cancel/", jobs.JobCancel.as_view(), name="job_cancel"),
    path("jobs/<int:pk>/hold/", jobs.JobHold.as_view(), name="job_hold"),
    path("jobs/<int:pk>/release/", jobs.JobRelease.as_view(), name="job_release"),
    path("jobs/<int:pk>/pause/", jobs.JobPause.as_view(), name="job_pause"),
    path("jobs/<int:pk>/resume/", jobs.JobResume.as_view(), name="job_resume"),
    path("jobs/<int:pk>/clone/", jobs.JobClone.as_view(), name="job_clone"),
    path("jobs/<int:pk>/why/", job_parts.JobWhy.as_view(), name="job_why"),
    path("jobs/<int:pk>/options/", job_answers.JobOptions.as_view(), name="job_options"),
    path("jobs/<int:pk>/before/<int:other>/", job_answers.JobBefore.as_view(), name="job_before"),
    path("scheduling/", job_answers.Scheduling.as_view(), name="scheduling"),
    path("jobs/<int:pk>/events/", job_parts.JobEvents.as_view(), name="job_events"),
    path("jobs/<int:pk>/attempts/", job_parts.JobAttempts.as_view(), name="job_attempts"),
    path("jobs/<int:pk>/log/", job_output.JobLog.as_view(), name="job_log"),
    path("jobs/<int:pk>/log/raw/", holding(job_output.JobLogRaw.as_view()), name="job_log_raw"),
    path("jobs/<int:pk>/samples/", job_output.JobSamples.as_view(), name="job_samples"),
    path("jobs/<int:pk>/cost/", job_output.JobCostView.as_view(), name="job_cost"),
    path("sets/", sets.Sets.as_view(), name="sets"),
    path("sets/<int:pk>/", sets.SetByNumber.as_view(), name="set"),
    path("sets/<int:pk>/cancel/", sets.SetCancel.as_view(), name="set_cancel"),
    path("sets/<int:pk>/rerun/", sets.SetRerun.as_view(), name="set_rerun"),
    path("pools/", cluster.PoolList.as_view(), name="pools"),
    path("nodes/", cluster.NodeList.as_view(), name="nodes"),
    path("nodes/tokens/", cluster.NodeTokens.as_view(), name="node_tokens"),
    path("nodes/<str:name>/", cluster.NodeByName.as_view(), name="node"),
    path("nodes/<str:name>/gpus/<int:index>/", cluster.NodeDevice.as_view(), name="node_device"),
    path("nodes/<str:name>/drain/", cluster.NodeDrain.as_view(), name="node_drain"),
    path("nodes/<str:name>/resume/", cluster.NodeResume.as_view(), name="node_resume"),
    path("nodes/<str:name>/retire/", cluster.NodeRetire.as_view(), name="node_retire"),
    path("nodes/<str:name>/place/", cluster.NodePlace.as_view(), name="node_place"),
    path("nodes/<str:name>/labels/", cluster.NodeLabels.as_view(), name="node_labels"),
    path("windows/", windows.WindowList.as_view(), name="windows"),
    path("windows/<int:pk>/cancel/", windows.WindowCancel.as_view(), name="window_cancel"),
    path("licences/", licences.LicenceList.as_view(), name="licences"),
    path("licences/<str:name>/remove/", licences.LicenceRemove.as_view(), name="licence_remove"),
    path("queue/<slug:pool>/", cluster.QueueByPool.as_view(), name="queue"),
    path("queue/<slug:pool>/pause/", cluster.QueuePause.as_view(), name="queue_pause"),
    path("queue/<slug:pool>/resume/", cluster.QueueResume.as_view(), name="queue_resume"),
    path("costs/", costs.CostList.as_view(), name="costs"),
    path("rates/", costs.RateList.as_view(), name="rates"),
    path("rates/proposals/", costs.RateProposals.as_view(), name="rate_proposals"),
    path("rates/<int:pk>/approve/", costs.RateApprove.as_view(), name="rate_approve"),
    path("rates/<int:pk>/decline/", costs.RateDecline.as_view(), name="rate_decline"),
    path("finance/terms/", terms.TermsList.as_view(), name="terms"),
    path("finance/terms/<int:pk>/approve/", terms.TermsApprove.as_view(), name="terms_approve"),
    path("finance/terms/<int:pk>/decline/", terms.TermsDecline.as_view(), name="terms_decline"),
    path("rules/quotas/", quotas.QuotaList.as_view(), name="quotas"),
    path("rules/quotas/<int:pk>/", quotas.QuotaByNumber.as_view(), name="quota"),
    path("rules/quotas/<int:pk>/grants/", quotas.QuotaGrants.as_view(), name="quota_grants"),
    path("rules/grants/<int:pk>/revoke/", quotas.GrantRevoke.as_view(), name="grant_revoke"),
    path("rules/budgets/", budgets.BudgetList.as_view(), name="budgets"),
    path("rules/budgets/<int:pk>/remove/", budgets.BudgetRemove.as_view(), name="budget_remove"),
    path("rules/policies/", policies.PolicyList.as_view(), name="policies"),
    path("roles/", roles.RoleList.as_view(), name="roles"),
    path("roles/confirm/", roles.RoleConfirm.as_view(), name="role_confirm"),
    path("roles/take/", roles.RoleTake.as_view(), name="role_take"),
    path("finance/reports/", reports.ReportList.as_view(), name="reports"),
    path("finance/reports/<slug:slug>/", reports.ReportBySlug.as_view(), name="report"),
    path("finance/reports/<slug:slug>/file/", reports.ReportFile.as_view(), name="report_file"),
    path("me/", people.WhoAmI.as_view(), name="me"),
    path("projects/", people.ProjectList.as_view(), name="projects"),
    path("tokens/", people.TokenList.as_view(), name="tokens"),
    path("tokens/<int:pk>/", people.TokenByNumber.as_view(), name="token"),
    path("schema/", Schema.as_view(), name="schema"),
]
