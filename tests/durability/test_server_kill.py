"""A server killed with SIGKILL while clients publish, confirm, consume and acknowledge: what was promised is kept."""

from pathlib import Path

import pytest

from tests.durability.server_kill import Battle, summary

LIVES = 3


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_confirmed_is_lost_and_order_holds(tmp_path: Path, seed: int) -> None:
    battle = Battle(tmp_path, seed)
    for _ in range(LIVES):
        battle.live()
    print(f"seed {seed}, {summary(battle.lives)}")
    assert sum(life.confirmed for life in battle.lives) > 0
    assert sum(life.acknowledged for life in battle.lives) > 0
