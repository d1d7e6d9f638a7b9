"""The tables of *who, and on whose bill*."""

from accounts.models.addresses import AddressChange
from accounts.models.audit import AuditEvent, AuditHead, AuditSeal
from accounts.models.cost_centres import CostCentre, TeamPast
from accounts.models.delegations import Delegation, DelegationScope
from accounts.models.demo import DemoAct, DemoMark, DemoOrder
from accounts.models.grants import (
    ProjectGroupObjectPermission,
    ProjectUserObjectPermission,
    TeamGroupObjectPermission,
    TeamUserObjectPermission,
)
from accounts.models.identities import GroupRule
from accounts.models.projects import Project
from accounts.models.rates import Rate, RateCard, RateDecision, RateEnding, RateKind
from accounts.models.roles import OrganisationRole, RoleGrant
from accounts.models.teams import Invitation, Membership, Role, Team
from accounts.models.tokens import ApiToken, SpentKey
from accounts.models.users import User, UserKind

__all__ = [
    "AddressChange",
    "ApiToken",
    "AuditEvent",
    "AuditHead",
    "AuditSeal",
    "CostCentre",
    "Delegation",
    "DelegationScope",
    "DemoAct",
    "DemoMark",
    "DemoOrder",
    "GroupRule",
    "Invitation",
    "Membership",
    "OrganisationRole",
    "Project",
    "ProjectGroupObjectPermission",
    "ProjectUserObjectPermission",
    "Rate",
    "RateCard",
    "RateDecision",
    "RateEnding",
    "RateKind",
    "Role",
    "RoleGrant",
    "SpentKey",
    "Team",
    "TeamGroupObjectPermission",
    "TeamPast",
    "TeamUserObjectPermission",
    "User",
    "UserKind",
]
