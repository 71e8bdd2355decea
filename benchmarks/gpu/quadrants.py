"""FedOnce's local learning on a GPU: MNIST's four quadrants, over `reticent.learn` alone (torch, numpy and scipy are enough).

    python benchmarks/gpu/quadrants.py build/mnist.npz OUT.json [--epochs 100]

The file holds x [70000, 28, 28] and y, the first 60,000 rows training. Prints and writes accuracies and seconds; the figures of the CPU
come from the same code with --device cpu.
"""

import argparse
import json
import time

import numpy as np
import torch
from torch import Tensor

from reticent.learn import encoders, models
from reticent.learn.task import Task


def quadrants(x: Tensor) -> list[Tensor]:
    return [x[:, None, i : i + 14, j : j + 14].float().div(127.5).sub(1) for i in (0, 14) for j in (0, 14)]


def measured(device: torch.device, work: object) -> tuple[object, float]:
    began = time.perf_counter()
    result = work()  # type: ignore[operator]
    if device.type == "cuda":
        torch.cuda.synchronize()
    return result, time.perf_counter() - began


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("data")
    words.add_argument("out")
    words.add_argument("--device", default="cuda")
    words.add_argument("--epochs", type=int, default=10)
    words.add_argument("--encoders", default="pca,random-net,autoencoder,nat")
    words.add_argument("--guest-epochs", type=int, default=5)
    words.add_argument("--rows", type=int, default=60_000)
    said = words.parse_args()
    device = torch.device(said.device)
    held = np.load(said.data)
    x, y = torch.from_numpy(held["x"]), torch.from_numpy(held["y"]).long()
    pieces = [piece.to(device) for piece in quadrants(x)]
    train, test = slice(0, said.rows), slice(60_000, 70_000)
    found = []
    for name in said.encoders.split(","):
        config = encoders.EncoderConfig(name=name, dim=16, epochs=said.guest_epochs, batch=128, frequency=3)
        heard_train, heard_test, seconds = [], [], 0.0
        for number, piece in enumerate(pieces[1:]):
            encoder, took = measured(
                device, lambda piece=piece, number=number, config=config: encoders.fit(piece[train], config, torch.Generator().manual_seed(number), device)
            )
            heard_train.append(encoder(piece[train]))
            heard_test.append(encoder(piece[test]))
            seconds += took
        asked = models.ModelConfig(model="cnn", epochs=said.epochs)
        model, took = measured(
            device,
            lambda h=heard_train, asked=asked: models.fit(
                pieces[0][train], h, y[train].to(device), Task("multiclass", 10), asked, torch.Generator().manual_seed(0), device
            ),
        )
        right = (model.predict(pieces[0][test], heard_test).argmax(1) == y[test]).float().mean().item()
        found.append(
            {"encoder": name, "accuracy": right, "guests_seconds": seconds, "host_seconds": took, "guest_epochs": said.guest_epochs, "host_epochs": said.epochs}
        )
        print(found[-1], flush=True)
    machine = torch.cuda.get_device_name() if device.type == "cuda" else f"cpu, {torch.get_num_threads()} threads"
    with open(said.out, "w") as file:
        json.dump({"machine": machine, "torch": torch.__version__, "rows": said.rows, "results": found}, file, indent=1)


if __name__ == "__main__":
    main()
