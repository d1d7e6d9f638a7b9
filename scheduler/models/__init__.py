"""The tables of *what runs where*, in the order of a job's life."""

from scheduler.models.attempts import (
    Allocation,
    Attempt,
    LogChunk,
    OutputFile,
    Placement,
    Retention,
)
from scheduler.models.books import (
    Adjustment,
    LedgerEntry,
    LedgerHead,
    Period,
    PeriodClose,
    Statement,
    StatementLine,
    UsageLine,
)
from scheduler.models.calendar import Booking, Headroom, MaintenanceWindow
from scheduler.models.claims import Claim
from scheduler.models.cluster import (
    Dataset,
    DatasetCopy,
    Device,
    Licence,
    Node,
    NodeToken,
    Pool,
)
from scheduler.models.composing import JobDraft, JobTemplate, TemplateUse, TemplateVersion
from scheduler.models.history import (
    CycleRecord,
    InvariantCheck,
    JobEvent,
    NodeEvent,
    PoolHour,
    SchedulerLease,
    StartForecast,
)
from scheduler.models.idling import IdleRule, IdleWarning
from scheduler.models.inbox import (
    Announcement,
    Delivery,
    Dialect,
    NewsHours,
    Notification,
    NotificationChoice,
    NotificationMute,
    WaitingNews,
    Webhook,
)
from scheduler.models.jobs import Job, SubmitKey
from scheduler.models.money.checks import Reconciliation
from scheduler.models.money.commitments import BudgetAlert, BudgetHold, BudgetPledge
from scheduler.models.money.costs import Asset, CostKind, PoolCost
from scheduler.models.money.countings import Counting, CountingAct
from scheduler.models.money.disputes import StatementEvent
from scheduler.models.money.files import ReportFile
from scheduler.models.money.previews import PricePreview
from scheduler.models.money.schedules import ReportDelivery, ReportSchedule
from scheduler.models.money.terms import GuaranteeSpan, PoolTerms, Recovery, TermsDecision
from scheduler.models.money.true_ups import BudgetTrueUp
from scheduler.models.queues import PoolRule, Queue
from scheduler.models.requesting import (
    BulkCancel,
    GrantNotice,
    OutboundMail,
    QuotaRequest,
    RequestDecision,
    RequestEvent,
    RequestPolicy,
    RequestVersion,
    WhatIf,
)
from scheduler.models.saved import SavedView, Scenario
from scheduler.models.saved.secrets import MeantSecrets, Secret
from scheduler.models.segments import DeviceSegment
from scheduler.models.sessions import Session, SessionPass
from scheduler.models.sets import JobSet
from scheduler.models.sharing import (
    Account,
    AlertAction,
    Budget,
    CommitsAt,
    Enforcement,
    Grant,
    Quota,
    Renewal,
    SchedulingRule,
    Threshold,
)
from scheduler.models.telemetry import DeviceHour, DeviceSample, HostSample
from scheduler.models.usage import DayOfJobs, DayOfUse, DaysCounted, PastUse, UsageEntry
from scheduler.models.waiting import Dependency, SetDependency

__all__ = [
    "Account",
    "Adjustment",
    "AlertAction",
    "Allocation",
    "Announcement",
    "Asset",
    "Attempt",
    "Booking",
    "Budget",
    "BudgetAlert",
    "BudgetHold",
    "BudgetPledge",
    "BudgetTrueUp",
    "BulkCancel",
    "Claim",
    "CommitsAt",
    "CostKind",
    "Counting",
    "CountingAct",
    "CycleRecord",
    "Dataset",
    "DatasetCopy",
    "DayOfJobs",
    "DayOfUse",
    "DaysCounted",
    "Delivery",
    "Dependency",
    "Device",
    "DeviceHour",
    "DeviceSample",
    "DeviceSegment",
    "Dialect",
    "Enforcement",
    "Grant",
    "GrantNotice",
    "GuaranteeSpan",
    "Headroom",
    "HostSample",
    "IdleRule",
    "IdleWarning",
    "InvariantCheck",
    "Job",
    "JobDraft",
    "JobEvent",
    "JobSet",
    "JobTemplate",
    "LedgerEntry",
    "LedgerHead",
    "Licence",
    "LogChunk",
    "MaintenanceWindow",
    "MeantSecrets",
    "NewsHours",
    "Node",
    "NodeEvent",
    "NodeToken",
    "Notification",
    "NotificationChoice",
    "NotificationMute",
    "OutboundMail",
    "OutputFile",
    "PastUse",
    "Period",
    "PeriodClose",
    "Placement",
    "Pool",
    "PoolCost",
    "PoolHour",
    "PoolRule",
    "PoolTerms",
    "PricePreview",
    "Queue",
    "Quota",
    "QuotaRequest",
    "Reconciliation",
    "Recovery",
    "Renewal",
    "ReportDelivery",
    "ReportFile",
    "ReportSchedule",
    "RequestDecision",
    "RequestEvent",
    "RequestPolicy",
    "RequestVersion",
    "Retention",
    "SavedView",
    "Scenario",
    "SchedulerLease",
    "SchedulingRule",
    "Secret",
    "Session",
    "SessionPass",
    "SetDependency",
    "StartForecast",
    "Statement",
    "StatementEvent",
    "StatementLine",
    "SubmitKey",
    "TemplateUse",
    "TemplateVersion",
    "TermsDecision",
    "Threshold",
    "UsageEntry",
    "UsageLine",
    "WaitingNews",
    "Webhook",
    "WhatIf",
]
