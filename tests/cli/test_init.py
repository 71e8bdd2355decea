import json
from pathlib import Path

from typer.testing import CliRunner

from reticent import study
from reticent.cli.commands import app
from reticent.errors import ReticentError


def test_init_writes_two_files_that_can_be_read(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["init", str(tmp_path / "new"), "--json"])
    assert json.loads(done.stdout) == {"written": [str(tmp_path / "new" / "study.toml"), str(tmp_path / "new" / "party.toml")]}
    assert study.read_study(tmp_path / "new" / "study.toml").parties is not None
    assert study.read_party(tmp_path / "new" / "party.toml").name == "bank"


def test_init_writes_over_nothing(tmp_path: Path) -> None:
    (tmp_path / "party.toml").write_text("mine")
    done = CliRunner().invoke(app, ["init", str(tmp_path)])
    assert isinstance(done.exception, ReticentError)
    assert "party.toml is there already" in str(done.exception)
    assert (tmp_path / "party.toml").read_text() == "mine"
    assert not (tmp_path / "study.toml").exists()


def test_init_makes_certificates_for_a_run_between_machines(tmp_path: Path) -> None:
    words = ["init", "--tls", "bank", "--tls", "shop", str(tmp_path), "--json"]
    written = json.loads(CliRunner().invoke(app, words).stdout)["written"]
    assert written == [str(tmp_path / "bank"), str(tmp_path / "shop")]
    assert sorted(path.name for path in (tmp_path / "shop").iterdir()) == ["ca.pem", "cert.pem", "key.pem"]
    assert (tmp_path / "shop" / "key.pem").stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "study.toml").exists()
    again = CliRunner().invoke(app, words)
    assert "is there already" in str(again.exception)
