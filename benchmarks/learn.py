"""How fast local learning is, one thread: NAT's epoch in multiples of scipy's own time for the same assignments, and a host's epoch.

    .venv/bin/python benchmarks/learn.py [OUT.json]

NAT: 10,000 rows of 7 columns, FC(30x30) to d = 3, batch 100, exact assignment. Host: the model `mlp` on 10,000 rows of 7 own columns and nine
letters of 3. CPU seconds (time.process_time), the middle of three seeds.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from threadpoolctl import threadpool_limits

from reticent.learn import models, nat, nets
from reticent.learn.task import Task
from reticent.learn.training import Schedule

CPU = torch.device("cpu")


def spent(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def nat_epoch(seed: int, epochs: int = 1) -> dict[str, float]:
    def rng() -> torch.Generator:
        return torch.Generator().manual_seed(seed)

    x = torch.randn(10_000, 7, generator=rng())
    schedule = Schedule(epochs, 100, 1e-3, 1e-5)
    costs: list[np.ndarray] = []
    real = nat.assign

    def remembered(z: np.ndarray, c: np.ndarray) -> np.ndarray:
        costs.append((z.mean(0, dtype=np.float64) - z) @ c.T.astype(np.float64))
        return real(z, c)

    nat.assign = remembered  # the costs of this very training, for scipy alone afterwards
    nat.train_nat(nets.mlp(7, (30, 30), 3, rng(), "tanh"), x, schedule, 1, rng(), CPU, None)
    nat.assign = real
    ours = spent(lambda: nat.train_nat(nets.mlp(7, (30, 30), 3, rng(), "tanh"), x, schedule, 1, rng(), CPU, None))
    scipys = spent(lambda: [linear_sum_assignment(cost) for cost in costs])
    return {"epoch_cpu_s": ours / epochs, "scipy_cpu_s": scipys / epochs, "ratio": ours / scipys}


def host_epoch(seed: int) -> float:
    rng = torch.Generator().manual_seed(seed)
    own, heard = torch.randn(10_000, 7, generator=rng), [torch.randn(10_000, 3, generator=rng) for _ in range(9)]
    y = (own[:, 0] + heard[0][:, 0] > 0).float()

    def fit(epochs: int) -> float:
        config = models.ModelConfig(model="mlp", epochs=epochs, batch=100)
        return spent(lambda: models.fit(own, heard, y, Task("binary", 1), config, torch.Generator().manual_seed(0), CPU))

    fit(1)
    return (fit(6) - fit(1)) / 5


def main() -> None:
    torch.set_num_threads(1)
    with threadpool_limits(1):
        nat_epoch(9)  # warm
        runs = [nat_epoch(seed) for seed in range(3)]
        ten = [nat_epoch(seed, 10) for seed in range(3)]
        hosts = [host_epoch(seed) for seed in range(3)]
    found = {
        "nat": {key: statistics.median(run[key] for run in runs) for key in runs[0]}, "nat ratios": [round(run["ratio"], 3) for run in runs],
        "nat, ten epochs": {key: statistics.median(run[key] for run in ten) for key in ten[0]},
        "host epoch cpu s": statistics.median(hosts), "host epochs": [round(h, 4) for h in hosts],
        "targets": {"nat ratio": 1.6, "host epoch cpu s": 0.03}, "torch": torch.__version__,
    }  # fmt: skip
    print(json.dumps(found, indent=1))
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
