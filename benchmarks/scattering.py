"""Scattering's speed, and what it is worth on MNIST's four quadrants.

    RETICENT_DATA=… .venv/bin/python benchmarks/scattering.py speed [--rows 240000] [--threads 2] [--device cpu|cuda]
    RETICENT_DATA=… .venv/bin/python benchmarks/scattering.py mnist [--encoders scattering,scattering-made] [--dims 16,64] [--epochs 10] [--own pixels|scattering]

Speed: quadrants of 14 x 14 by matrix products, beside 500 of them by complex FFTs and how far apart the two are. MNIST: three guests send
`dim` float32 numbers a row; the host (the upper left quadrant) trains `cnn` on its pixels, or on its own whole scattering the net of notes
§12: 1,024 and 512 units, dropout .2/.5/.5, label smoothing .05, AdamW, one cycle, batches of 512. --data FILE.npz (x [70000, 28, 28], y)
stands in where there is no pyarrow. Seed 0; the file OUT gets what is printed, as JSON.
"""

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from reticent.learn import encoders, models, nets, scattering
from reticent.learn.scorers import Scaling
from reticent.learn.task import Task
from reticent.learn.training import Schedule, train

TRAIN, TEST = slice(0, 60_000), slice(60_000, 70_000)


def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def clock(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def speed(rows: int, device: torch.device) -> dict[str, object]:
    x = torch.rand(rows, 1, 14, 14, generator=rng()).mul_(2).sub_(1).to(device)
    scattering.scatter(x[:512])  # the matrices are made once a size
    began, spent = clock(device), time.process_time()
    for at in range(0, rows, 4096):  # as an encoder does, which keeps d numbers of each block
        scattering.scatter(x[at : at + 4096])
    took, spent = clock(device) - began, time.process_time() - spent
    began = clock(device)
    plain = scattering.by_fft(x[:500, 0])
    by_fft = clock(device) - began
    apart = float((scattering.scatter(x[:500]) - plain).norm() / plain.norm())
    return {
        "rows": rows, "seconds": took, "cpu_seconds": spent, "ms_a_quadrant": 1e3 * took / rows, "seconds_for_240000": took / rows * 240_000,
        "fft_ms_a_quadrant": 1e3 * by_fft / len(plain), "relative_difference": apart,
    }  # fmt: skip


def quadrants(data: str) -> tuple[list[Tensor], Tensor]:
    if data:
        held = np.load(data)
        x, y = torch.from_numpy(held["x"]), torch.from_numpy(held["y"]).long()
    else:
        import pyarrow.parquet as pq  # not needed with --data

        parts = [pq.read_table(path) for part in ("train", "test") for path in sorted(Path(os.environ["RETICENT_DATA"], "mnist").glob(f"{part}*.parquet"))]
        columns = [table.column("image").combine_chunks() for table in parts]
        chunks = [column.chunk(0) if hasattr(column, "chunk") else column for column in columns]
        x = torch.from_numpy(np.concatenate([np.frombuffer(c.buffers()[1], np.uint8, 784 * len(c), 784 * c.offset) for c in chunks]).reshape(-1, 28, 28))
        y = torch.from_numpy(np.concatenate([table.column("label").to_numpy() for table in parts])).long()
    return [x[:, None, i : i + 14, j : j + 14].float().div(127.5).sub(1) for i in (0, 14) for j in (0, 14)], y


def wide_net(own: Tensor, heard: list[Tensor], y: Tensor, epochs: int, device: torch.device) -> float:
    """Test accuracy of the host's net of notes §12 on columns [own | heard]."""
    x = torch.cat([own, *heard], 1)
    scaling, drawn = Scaling.of(x[TRAIN]), rng()
    x = scaling(x)
    net = nets.mlp(x.shape[1], (1024, 512), 10, drawn, dropout=0.5).to(device)
    first, labels = nets.Dropout(0.2, nets.child(drawn)).to(device), y.to(device)
    net.train()

    def loss(rows: Tensor, epoch: int) -> Tensor:
        return F.cross_entropy(net(first(x[rows])), labels[rows], label_smoothing=0.05)

    train(net.parameters(), loss, 60_000, Schedule(epochs, 512, 2e-3, 0.05, decoupled=True, one_cycle=True), drawn, device)
    net.eval()
    with torch.no_grad():
        return float((nets.in_blocks(net, x[TEST]).argmax(1).cpu() == y[TEST]).float().mean())


def mnist(said: argparse.Namespace, device: torch.device) -> list[dict[str, object]]:
    pieces, y = quadrants(said.data)
    pieces = [piece.to(device) for piece in pieces]
    whole = scattering.features(pieces[0]) if said.own == "scattering" else None
    found: list[dict[str, object]] = []
    for name in said.encoders.split(","):
        for dim in map(int, said.dims.split(",")):
            began = clock(device)
            heard = []
            for piece in pieces[1:]:
                encoder = encoders.fit(piece[TRAIN], encoders.EncoderConfig(name, dim=dim), rng(), device)
                heard.append(encoder(piece))
            guests, began = clock(device) - began, clock(device)
            if whole is not None:
                accuracy = wide_net(whole, heard, y, said.epochs, device)
            else:
                asked = models.ModelConfig(model="cnn", epochs=said.epochs)
                model = models.fit(pieces[0][TRAIN], [z[TRAIN] for z in heard], y[TRAIN].to(device), Task("multiclass", 10), asked, rng(), device)
                accuracy = float((model.predict(pieces[0][TEST], [z[TEST] for z in heard]).argmax(1) == y[TEST]).float().mean())
            found.append(
                {
                    "encoder": name, "dim": dim, "own": said.own, "epochs": said.epochs, "accuracy": accuracy, "bytes_up": 3 * 60_000 * dim * 4,
                    "guests_seconds": guests, "host_seconds": clock(device) - began,
                }
            )  # fmt: skip
            print(found[-1], flush=True)
    return found


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("what", choices=("speed", "mnist"))
    words.add_argument("out", nargs="?")
    words.add_argument("--rows", type=int, default=20_000)
    words.add_argument("--threads", type=int, default=2)
    words.add_argument("--device", default="cpu")
    words.add_argument("--data", default="")
    words.add_argument("--encoders", default="scattering")
    words.add_argument("--dims", default="16,64")
    words.add_argument("--epochs", type=int, default=10)
    words.add_argument("--own", choices=("pixels", "scattering"), default="pixels")
    said = words.parse_args()
    torch.set_num_threads(said.threads)
    device = torch.device(said.device)
    found = speed(said.rows, device) if said.what == "speed" else mnist(said, device)
    machine = torch.cuda.get_device_name() if device.type == "cuda" else f"cpu, {said.threads} threads"
    text = json.dumps({"machine": machine, "torch": torch.__version__, "results": found}, indent=1)
    print(text)
    if said.out:
        Path(said.out).write_text(text + "\n")


if __name__ == "__main__":
    main()
