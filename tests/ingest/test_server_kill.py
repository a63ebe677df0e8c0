"""A server killed with SIGKILL while it commits a batch: the batch is published once all the same."""

from pathlib import Path

from tests.ingest.server_kill import Attack, summary

KILLS = 3


def test_a_kill_amid_a_commit_loses_and_doubles_nothing(tmp_path: Path) -> None:
    attack = Attack(tmp_path, seed=1)
    for _ in range(KILLS):
        attack.kill()
    print(summary(attack.kills))
    assert [(each.lost, each.duplicated) for each in attack.kills] == [(0, 0)] * KILLS
