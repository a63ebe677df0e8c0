import base64
from pathlib import Path

import pytest

from leveret.core.errors import DamagedJournal, InvalidArgument, WrongKey
from leveret.storage.encryption import MasterKeys, load_keys, parse_key, seal, unseal
from tests.storage.journal.world import World

OLD, NEW = b"o" * 32, b"n" * 32
SECRET = b"the quick leveret"


def written(path: Path, *keys: bytes, close: bool = True) -> tuple[object, ...]:
    world = World(path, keys=MasterKeys(*keys), segment_bytes=1024)
    for _ in range(8):
        world.durably(SECRET * 10, (1, 2))
    world.state.define(1, SECRET)
    world.commit.flush()
    facts = world.facts()
    if close:
        world.close()
    else:
        world.kill()
    return facts


@pytest.mark.parametrize("close", [True, False])
def test_what_is_encrypted_comes_back_and_is_not_readable(tmp_path: Path, close: bool) -> None:
    facts = written(tmp_path, OLD, close=close)
    for file in tmp_path.iterdir():
        assert SECRET not in file.read_bytes(), file.name
        assert SECRET.hex().encode() not in file.read_bytes(), file.name
    world = World(tmp_path, keys=MasterKeys(OLD), cache_bytes=1)
    assert world.recovered.from_checkpoint is close
    assert world.facts() == facts
    world.close()


@pytest.mark.parametrize("close", [True, False])
@pytest.mark.parametrize("given", [(), (NEW,)])
def test_without_the_key_it_says_which_one_is_needed(tmp_path: Path, given: tuple[bytes, ...], close: bool) -> None:
    written(tmp_path, OLD, close=close)
    with pytest.raises(WrongKey, match=MasterKeys(OLD).writing.hex()):
        World(tmp_path, keys=MasterKeys(*given))


def test_keys_are_rotated_by_giving_the_new_one_first(tmp_path: Path) -> None:
    written(tmp_path, OLD)
    world = World(tmp_path, keys=MasterKeys(NEW, OLD), cache_bytes=1)
    seqs = [world.durably(SECRET + b" anew") for _ in range(3)]
    facts = world.facts()
    assert world.state.read(1, seqs[0]).body == SECRET + b" anew"
    world.close()
    with pytest.raises(
        WrongKey, match=f"{MasterKeys(OLD).writing.hex()}; given: {MasterKeys(NEW).writing.hex()}.*key file"
    ):
        World(tmp_path, keys=MasterKeys(NEW))
    world = World(tmp_path, keys=MasterKeys(NEW, OLD), cache_bytes=1)
    assert world.facts() == facts
    world.close()


def test_encryption_can_be_switched_on_and_off(tmp_path: Path) -> None:
    written(tmp_path)
    world = World(tmp_path, keys=MasterKeys(NEW))
    world.durably(b"now secret")
    world.close()
    assert not any(b"now secret" in file.read_bytes() for file in tmp_path.iterdir())
    world = World(tmp_path, keys=MasterKeys(NEW))
    facts = world.facts()
    world.kill()
    world = World(tmp_path, keys=MasterKeys(NEW), cache_bytes=1)
    assert world.facts() == facts
    world.close()


def test_an_encrypted_segment_is_never_continued(tmp_path: Path) -> None:
    for number in range(3):
        world = World(tmp_path, keys=MasterKeys(OLD))
        world.durably(b"in segment %d" % number)
        world.kill()
    assert len(list(tmp_path.glob("seg-*.log"))) == 3


def test_a_changed_byte_in_an_encrypted_frame_is_found_when_it_is_read(tmp_path: Path) -> None:
    world = World(tmp_path, keys=MasterKeys(OLD), cache_bytes=1)
    seq = world.durably(SECRET)
    segment = tmp_path / "seg-00000000000000000001.log"
    data = bytearray(segment.read_bytes())
    data[64 + 48 + 20] ^= 1
    segment.write_bytes(data)
    with pytest.raises(DamagedJournal, match=segment.name):
        world.state.read(1, seq)
    world.kill()


def test_a_forged_frame_does_not_decrypt(tmp_path: Path) -> None:
    keys = MasterKeys(OLD)
    sealed = seal(keys, b"info", b"plain", b"header")
    assert unseal(keys, b"info", sealed, b"header") == b"plain"
    for info, header in ((b"info", b"headex"), (b"other", b"header")):
        with pytest.raises(WrongKey, match="tampered"):
            unseal(keys, info, sealed, header)
    with pytest.raises(WrongKey, match="too short"):
        unseal(keys, b"info", sealed[:40])


def test_keys_come_from_a_file_or_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{NEW.hex()}\n{base64.b64encode(OLD).decode()}\n")
    assert load_keys(file=str(file)).writing == MasterKeys(NEW).writing
    monkeypatch.setenv("LEVERET_KEY", OLD.hex())
    assert load_keys(variable="LEVERET_KEY").writing == MasterKeys(OLD).writing
    assert not load_keys()


def test_no_key_where_one_was_promised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEVERET_KEY", raising=False)
    with pytest.raises(InvalidArgument, match="LEVERET_KEY"):
        load_keys(variable="LEVERET_KEY")
    (tmp_path / "keys").write_text("\n")
    with pytest.raises(InvalidArgument, match="no encryption key"):
        load_keys(file=str(tmp_path / "keys"))


@pytest.mark.parametrize("text", ["", "abc", "00" * 31, "zz" * 32, base64.b64encode(b"short").decode()])
def test_a_key_of_the_wrong_form_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="32 bytes"):
        parse_key(text)


def test_a_key_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="not 16"):
        MasterKeys(b"k" * 16)
