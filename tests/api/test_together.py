"""Who waits for a turn is taken along; nobody waits for others to come, nobody pays for them."""

from __future__ import annotations

import asyncio

import pytest

from portal.api.nodes.together import Together


class _Work:
    """Notes what it was given, and goes on when it is told to."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.goes_on = asyncio.Event()

    async def __call__(self, items):
        self.batches.append(items)
        await self.goes_on.wait()
        if -1 in items:
            raise RuntimeError("nothing works")
        return [ValueError(str(item)) if item == 0 else 10 * item for item in items]


async def _begun(*asked):
    """Tasks of these, each as far as it gets by itself."""
    tasks = [asyncio.create_task(one) for one in asked]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


async def test_the_first_begins_at_once_and_who_comes_meanwhile_is_one_batch():
    work = _Work()
    line = Together(work, turns=1, most=3)
    tasks = await _begun(line.ask(1))
    assert work.batches == [[1]]
    tasks += await _begun(*(line.ask(number) for number in range(2, 7)))
    work.goes_on.set()
    assert await asyncio.gather(*tasks) == [10, 20, 30, 40, 50, 60]
    assert work.batches == [[1], [2, 3, 4], [5, 6]]
    assert await line.ask(7) == 70


async def test_with_two_turns_two_are_at_work():
    work = _Work()
    line = Together(work, turns=2, most=3)
    tasks = await _begun(line.ask(1))
    tasks += await _begun(line.ask(2))
    tasks += await _begun(line.ask(3), line.ask(4))
    assert work.batches == [[1], [2]]
    work.goes_on.set()
    assert await asyncio.gather(*tasks) == [10, 20, 30, 40]


async def test_each_gets_its_own_exception_and_who_leaves_takes_nothing_along():
    work = _Work()
    line = Together(work, turns=1, most=9)
    [first] = await _begun(line.ask(1))
    second, third, fourth = await _begun(*(line.ask(number) for number in (0, 3, 4)))
    first.cancel()
    third.cancel()
    work.goes_on.set()
    with pytest.raises(ValueError, match="0"):
        await second
    assert await fourth == 40
    assert work.batches == [[1], [0, 4]]


async def test_what_the_work_raises_is_for_all_and_the_line_goes_on():
    work = _Work()
    line = Together(work, turns=1, most=2)
    tasks = await _begun(line.ask(1))
    tasks += await _begun(*(line.ask(number) for number in (-1, 2, 3)))
    work.goes_on.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert (found[0], found[3]) == (10, 30)
    assert all(isinstance(one, RuntimeError) for one in found[1:3])
