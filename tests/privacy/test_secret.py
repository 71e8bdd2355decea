import math
import os
import stat
from pathlib import Path

import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from scipy import stats

from reticent.errors import JournalError, PrivacyError
from reticent.privacy.secret import Privacy, Stream, destroy, keep

SECRET = bytes(range(32))


def draw(privacy: Privacy, *doing: str, purpose: str = "") -> bytes:
    with privacy.during(*doing):
        return privacy.stream(purpose).bytes(32)


def test_a_stream_is_chacha20_under_hkdf_of_what_is_done() -> None:
    info = b"".join(len(part).to_bytes(4, "big") + part for part in (b"shop", b"fit/0", b"q", b"table", b"", b"0"))
    key = HKDF(algorithm=SHA256(), length=32, salt=b"reticent run secret", info=info).derive(SECRET)
    expected = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(32))
    assert draw(Privacy(SECRET, "shop", lambda: "table"), "fit/0", "q") == expected


def test_the_same_thing_draws_the_same_and_anything_else_something_else() -> None:
    first = draw(Privacy(SECRET, "shop"), "fit/0", "q")
    assert draw(Privacy(SECRET, "shop"), "fit/0", "q") == first
    others = [
        draw(Privacy(bytes(32), "shop"), "fit/0", "q"), draw(Privacy(SECRET, "telco"), "fit/0", "q"), draw(Privacy(SECRET, "shop", lambda: "t"), "fit/0", "q"),
        draw(Privacy(SECRET, "shop"), "fit/1", "q"), draw(Privacy(SECRET, "shop"), "fit/0", "p"), draw(Privacy(SECRET, "shop"), "fit/0q", ""),
        draw(Privacy(SECRET, "shop"), "fit/0", "q", purpose="rows"), draw(Privacy(SECRET, "shop"), "fit/0"),
    ]  # fmt: skip
    assert len({first, *others}) == 9


def test_two_streams_of_one_verb_never_share_noise() -> None:
    privacy = Privacy(SECRET, "shop")
    with privacy.during("fit/0"):
        drawn = [privacy.stream().bytes(8), privacy.stream().bytes(8), privacy.stream("b").bytes(8)]
        with privacy.during("fit//0/once"):
            drawn.append(privacy.stream().bytes(8))
        drawn.append(privacy.stream().bytes(8))
    assert len(set(drawn)) == 5
    with privacy.during("fit/0"):
        assert [privacy.stream().bytes(8), privacy.stream().bytes(8)] == drawn[:2]
        assert privacy.stream().bytes(8) == drawn[4], "what was done in between does not move it: after a kill it is not done again"


def test_noise_outside_a_verb_is_refused() -> None:
    privacy = Privacy(SECRET, "shop")
    with pytest.raises(PrivacyError, match=r"shop: noise was asked for outside a verb, once\(\) or steps\(\)"):
        privacy.stream()
    draw(privacy, "fit/0")
    with pytest.raises(PrivacyError, match="outside"):
        privacy.stream()


def test_draws_move_on_and_do_not_depend_on_how_they_are_cut() -> None:
    whole, pieces = Stream(SECRET), Stream(SECRET)
    assert whole.bytes(100) == pieces.bytes(1) + pieces.bytes(63) + pieces.bytes(0) + pieces.bytes(36)
    assert whole.uniform((0,)).shape == (0,)
    assert whole.normal((3, 0)).shape == (3, 0)


def test_uniform_normal_and_coins_are_what_they_say() -> None:
    stream = Stream(SECRET)
    uniform, normal, coins = stream.uniform((200, 1000)), stream.normal((99_999,)), stream.coins(100_000, 0.3)
    assert uniform.dtype == normal.dtype == torch.float64
    assert 0 < float(uniform.min()) < float(uniform.max()) < 1
    assert stats.kstest(uniform.flatten().numpy(), "uniform").pvalue > 1e-3
    assert stats.kstest(normal.numpy(), "norm").pvalue > 1e-3
    half = len(normal) // 2
    assert abs(float(torch.corrcoef(torch.stack([normal[:half], normal[half : 2 * half]]))[0, 1])) < 5 / math.sqrt(half)
    assert stats.binomtest(int(coins.sum()), len(coins), 0.3).pvalue > 1e-3
    assert not stream.coins(1000, 0.0).any()
    assert stream.coins(1000, 1.0).all()


def test_a_runs_secret_is_made_once_and_read_by_its_owner_only(tmp_path: Path) -> None:
    secret = keep(tmp_path)
    assert len(secret) == 32
    assert keep(tmp_path) == secret
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]
    assert keep(None) != keep(None)


@pytest.mark.parametrize("call", ["open", "fsync", "link"])
def test_a_kill_while_the_secret_is_made_leaves_a_whole_one_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    real = getattr(os, call)
    for after in (False, True):

        def killed(*arguments: object, after: bool = after) -> object:
            if after:
                real(*arguments)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(os, call, killed)
            with pytest.raises(KeyboardInterrupt):
                keep(tmp_path)
        found = (tmp_path / "secret").read_bytes() if (tmp_path / "secret").exists() else None
        assert found is None or len(found) == 32
    secret = keep(tmp_path)
    assert found in (None, secret)
    destroy(tmp_path)
    assert list(tmp_path.iterdir()) == [], "nothing of it stays"


def test_a_broken_secret_is_named(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"short")
    with pytest.raises(JournalError, match="holds 5 bytes, 32 are needed"):
        keep(tmp_path)


def test_a_destroyed_secret_is_overwritten_first(tmp_path: Path) -> None:
    keep(tmp_path)
    os.link(tmp_path / "secret", tmp_path / "elsewhere")
    destroy(tmp_path)
    assert not (tmp_path / "secret").exists()
    assert (tmp_path / "elsewhere").read_bytes() == bytes(32)
    destroy(tmp_path)
    destroy(None)
