"""Of the story in which all went well: in which pools its job might run; and what breaks I38."""

from __future__ import annotations

POOLS = ({"id": 2, "name": "default"}, {"id": 9, "name": "pool-2"})
PLACED = {"kind": "placed", "at": 89.0, "key": "k1", "pools": ["default"], "project": "p"}
# Between its two attempts, and refused: it is as before.
MOVED = {
    "kind": "moved", "at": 122.0, "sent_at": 121.0, "job": 1, "pools": ["pool-2"], "status": 409,
}  # fmt: skip


def _moves(story, **facts):
    story.fact("moved").update(facts)


def began_where_it_may_not(story):
    story.fact("placed")["pools"] = ["pool-2"]


def began_where_it_might_before_it_was_changed(story):
    """Eight seconds after the answer."""
    _moves(story, status=200)


def began_where_it_is_to_go_too_early(story):
    """The second attempt may have, the first one may not."""
    story.fact("placed")["pools"] = ["pool-2"]
    _moves(story, status=200, pools=["default"])


def began_on_nodes_of_two_pools(story):
    story.tables["node"].append({**story.row("node", 1), "id": 2, "name": "n2", "pool_id": 9})
    rank = {**story.row("placement", 22), "id": 24, "rank": 1, "node_id": 2}
    story.tables["placement"].append(rank)


def went_where_it_may_not(story):
    event = {**story.row("jobevent", 4), "id": 8, "kind": "moved_to_pool", "at": 125.0}
    event |= {"from_state": "queued", "to_state": "queued"}
    story.tables["jobevent"].append({**event, "detail": {"from": "default", "to": "pool-2"}})
    story.row("job", 1)["version"] = 8


def began_where_its_project_may_use_nothing(story):
    story.row("quota", 6).update(account_id=4, pool_id=2)


def lives_outside_its_pool(story):
    story.row("attempt", 12).update(state="running", ended_at=None, end_reason="")
    story.row("job", 1)["pool_id"] = 9


NAMED = [
    *(began_where_it_may_not, began_where_it_might_before_it_was_changed),
    *(began_where_it_is_to_go_too_early, began_on_nodes_of_two_pools, went_where_it_may_not),
    *(began_where_its_project_may_use_nothing, lives_outside_its_pool),
]
