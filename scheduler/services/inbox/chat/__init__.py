"""Chats: channels of people and teams that are told what these are told."""

from scheduler.services.inbox.chat.channels import add_channel, change_channel, remove_channel
from scheduler.services.inbox.chat.trying import Tried, try_channel

__all__ = ["Tried", "add_channel", "change_channel", "remove_channel", "try_channel"]
