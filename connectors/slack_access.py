"""Who may open what in Slack, as grants and group edges.

A public channel is open to the full members of the workspace (group `slack:<team>`), and to the guests who are in it;
everything else to its members (group `slack:<channel>`). Nothing is granted to a person by name, so that leaving a
channel changes one edge and no document.
"""

from __future__ import annotations

from collections.abc import Iterator

from connectors.slack_model import PREFIX, Channel, ChannelKind, Workspace
from cortex.documents import Grant, GrantKind, Membership


def viewers(workspace: Workspace, channel: Channel) -> tuple[str, ...]:
    """Name the groups that may open a channel; none when its members are unknown."""
    own = f"{PREFIX}{channel.channel_id}"
    if channel.kind is not ChannelKind.PUBLIC:
        return () if channel.member_ids is None else (own,)
    everyone = f"{PREFIX}{workspace.team_id or 'workspace'}"
    return (everyone, own) if _guests(workspace, channel) else (everyone,)


def memberships(workspace: Workspace) -> Iterator[Membership]:
    """List who is in which group; deleted accounts, bots and people of other workspaces are in none."""
    full = {user_id for user_id, user in workspace.users.items() if user.is_full_member}
    yield from _edges(workspace, workspace.team_id or "workspace", full)
    for channel_id, channel in sorted(workspace.channels.items()):
        if channel.kind is ChannelKind.PUBLIC:
            yield from _edges(workspace, channel_id, _guests(workspace, channel))
        else:
            yield from _edges(workspace, channel_id, set(channel.member_ids or ()))
    for group_id, (_, member_ids) in sorted(workspace.usergroups.items()):
        yield from _edges(workspace, group_id, set(member_ids))


def _guests(workspace: Workspace, channel: Channel) -> set[str]:
    users = workspace.users
    return {user_id for user_id in channel.member_ids or () if user_id in users and users[user_id].is_guest}


def _edges(workspace: Workspace, group_id: str, member_ids: set[str]) -> Iterator[Membership]:
    people = (workspace.users[user_id] for user_id in member_ids if user_id in workspace.users)
    identities = sorted({user.identity for user in people if user.is_active})
    yield from (Membership(f"{PREFIX}{group_id}", Grant(GrantKind.USER, name)) for name in identities)
