"""The writes of *who, and on whose bill*: verbs, actor first, one transaction each."""

from accounts.services.delegations import delegate, end_delegation, require_lender
from accounts.services.ending.proposing import approve_end, decline_end, propose_end
from accounts.services.invitations import accept_invitation, invite, revoke_invitation
from accounts.services.memberships import add_member, change_role, leave_team, remove_member
from accounts.services.people import (
    change_display_name,
    create_first_administrator,
    create_user,
    keep_columns,
    keep_scope,
)
from accounts.services.previews import (
    Preview,
    begin_preview,
    end_preview,
    kept_preview,
    preview_as,
)
from accounts.services.rate_cards import approve_card, decline_card, draft_card, propose_card
from accounts.services.rates import (
    appoint_bookkeeper,
    approve_rate,
    decline_rate,
    price_reserved_alike,
    propose_rate,
    set_rate,
)
from accounts.services.roles import confirm_role, give_role, take_role
from accounts.services.service_accounts import (
    SERVICE_SCOPES,
    end_service_account,
    issue_service_token,
    make_service_account,
    revoke_service_token,
)
from accounts.services.teams import (
    archive_project,
    create_project,
    create_team,
    move_team,
    rename_team,
    set_cost_centre,
)
from accounts.services.tokens import SCOPES, authenticate_token, issue_token, revoke_token

__all__ = [
    "SCOPES",
    "SERVICE_SCOPES",
    "Preview",
    "accept_invitation",
    "add_member",
    "appoint_bookkeeper",
    "approve_card",
    "approve_end",
    "approve_rate",
    "archive_project",
    "authenticate_token",
    "begin_preview",
    "change_display_name",
    "change_role",
    "confirm_role",
    "create_first_administrator",
    "create_project",
    "create_team",
    "create_user",
    "decline_card",
    "decline_end",
    "decline_rate",
    "delegate",
    "draft_card",
    "end_delegation",
    "end_preview",
    "end_service_account",
    "give_role",
    "invite",
    "issue_service_token",
    "issue_token",
    "keep_columns",
    "keep_scope",
    "kept_preview",
    "leave_team",
    "make_service_account",
    "move_team",
    "preview_as",
    "price_reserved_alike",
    "propose_card",
    "propose_end",
    "propose_rate",
    "remove_member",
    "rename_team",
    "require_lender",
    "revoke_invitation",
    "revoke_service_token",
    "revoke_token",
    "set_cost_centre",
    "set_rate",
    "take_role",
]
