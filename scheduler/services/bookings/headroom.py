"""GPUs that production can always have. What would have no effect is refused."""

from __future__ import annotations

from django.db import transaction

from accounts.models import User
from accounts.services.audit import record
from scheduler import events
from scheduler.models import Device, Headroom, Pool
from scheduler.services.errors import Invalid
from scheduler.services.sharing.policies import policy_of_pool
from scheduler.services.sharing.rights import require_operator


@transaction.atomic
def set_headroom(*, actor: User, pool: Pool, gpus: int, gpu_model: str = "") -> Headroom | None:
    """So many GPUs of a pool, or of one model of it; 0 keeps none and returns None.

    They are lent to jobs that can be stopped meanwhile, so that takes a rule that lets production
    stop them. Raises Forbidden, Invalid.
    """
    require_operator(actor)
    gpu_model = gpu_model.strip()
    pool = Pool.objects.select_for_update().get(pk=pool.pk)
    row = Headroom.objects.filter(pool=pool, gpu_model=gpu_model).first()
    before = row.gpus if row else 0
    if gpus:
        _check(pool, gpus, gpu_model)
        row, _ = Headroom.objects.update_or_create(
            pool=pool, gpu_model=gpu_model, defaults={"gpus": gpus, "set_by": actor}
        )
    elif row is not None:
        row.delete()
        row = None
    if gpus != before:
        of = {"gpu_model": gpu_model} if gpu_model else {}
        record(
            actor,
            "pool.headroom",
            pool,
            before={**of, "headroom": before},
            after={**of, "headroom": gpus},
        )
        events.wake_scheduler_on_commit()
    return row


def _check(pool: Pool, gpus: int, gpu_model: str) -> None:
    if not policy_of_pool(pool).stops_lower_tiers:
        raise Invalid(
            "The policy of this pool lets no job stop others of lower tiers, so production could "
            "not take back what is lent. Set a policy that preempts, under fair or fifo, first.",
            field="gpus",
        )
    present = Device.objects.filter(node__pool=pool, is_present=True, in_service=True)
    if gpu_model:
        present = present.filter(model=gpu_model)
    total = present.count()
    if not 0 < gpus <= total:
        of = f" of model {gpu_model}" if gpu_model else ""
        raise Invalid(
            f"Pool {pool.name} has {total} GPUs{of}; give 0 to {total}.",
            field="gpus" if total or not gpu_model else "gpu_model",
        )
