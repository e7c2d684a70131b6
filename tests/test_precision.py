"""Lost digits, sums that stand still, merged whole numbers and missed equalities: what is named, and what only looks like it."""

from __future__ import annotations

from pathlib import Path

import pytest
from forked import loud, silent

BROKEN = {
    "covariance by moments": (
        "cancellation",
        """
        import torch
        torch.manual_seed(0)
        height = 1e5 + torch.randn(2000)
        weight = 1e5 + 0.5 * height - 5e4 + torch.randn(2000)
        cov = (height * weight).mean() - height.mean() * weight.mean()  # here
        print(cov.item())
        """,
    ),
    "variance of a stream": (
        "variance-cancellation",
        """
        import torch
        torch.manual_seed(0)
        n, total, squares = 0, torch.zeros(4), torch.zeros(4)
        for _ in range(30):
            batch = 3e4 + torch.randn(32, 4)
            n += len(batch)
            total += batch.sum(0)
            squares += (batch ** 2).sum(0)
        spread = (squares / n - (total / n).square()).abs().sqrt()  # here
        print(spread)
        """,
    ),
    "squared distances by matmul": (
        "cancellation",
        """
        import torch
        torch.manual_seed(0)
        place = 4e4 + torch.rand(80, 3)
        norm = place.pow(2).sum(1)
        square = norm[:, None] + norm[None] - 2 * place @ place.T  # here
        near = square.clamp(min=0).sqrt().topk(4, largest=False).values
        print(near[:, 1:].mean())
        """,
    ),
    "an error that the program measures itself": (
        "cancellation",
        """
        import torch

        def survival(rate):
            return 1 - torch.exp(-rate)  # here

        def main():
            rate = torch.linspace(1e-9, 3e-9, 50)
            ours = survival(rate)
            right = -torch.expm1(-rate.double())
            print(((ours - right).abs() / right).max().item())

        main()
        """,
    ),
    "normal equations": (
        "ill-conditioned",
        """
        import torch
        torch.manual_seed(0)
        t = torch.linspace(0, 2, 80)
        basis = torch.stack([t ** k for k in range(10)], 1)
        gram = basis.T @ basis
        weights = torch.linalg.inv(gram) @ (basis.T @ torch.sin(3 * t))  # here
        print((basis @ weights - torch.sin(3 * t)).abs().max())
        """,
    ),
    "a float16 mean": (
        "absorbed-addition",
        """
        import torch
        torch.manual_seed(0)
        total = torch.zeros((), dtype=torch.float16)
        for value in torch.rand(6000).half():
            total = total + value  # here
        print(total / 6000)
        """,
    ),
    "averaged weights in bfloat16": (
        "absorbed-addition",
        """
        import torch
        torch.manual_seed(0)
        w = torch.nn.Parameter(torch.zeros(20))
        average = w.detach().bfloat16() + 0.5
        optimizer = torch.optim.SGD([w], lr=0.1)
        for step in range(400):
            loss = (w - 3).square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                average.mul_(0.9995).add_(w.detach().bfloat16(), alpha=0.0005)  # here
        print(average.mean())
        """,
    ),
    "ids through float16": (
        "low-precision-index",
        """
        import torch
        torch.manual_seed(0)
        table = torch.randn(5000, 4)
        wanted = torch.arange(3000, 3100)
        batch = torch.stack([wanted, wanted % 7]).half()  # here
        rows = table[batch[0].long()]
        print(rows.mean())
        """,
    ),
    "positions in bfloat16": (
        "low-precision-index",
        """
        import torch
        mask = torch.ones(2, 600, dtype=torch.bfloat16)
        place = mask.cumsum(-1) - 1  # here
        wave = torch.sin(place * 0.1)
        print(wave.float().std())
        """,
    ),
    "a tolerance for float64": (
        "float-equality",
        """
        import torch
        torch.manual_seed(0)
        x = torch.rand(100) + 1
        back = torch.sqrt(x) ** 2
        same = torch.isclose(back, x, rtol=1e-9, atol=1e-10)  # here
        print(same.float().mean())
        """,
    ),
}

HEALTHY = {
    "whole numbers written piece by piece": """
        import torch
        torch.manual_seed(0)
        images = [torch.randint(0, 256, (int(n), 8), dtype=torch.uint8) for n in torch.randint(3, 9, (20,))]
        batch = torch.zeros(20, 8, 8, dtype=torch.uint8)
        for i, image in enumerate(images):
            batch[i, : len(image)] = image
        ink = (batch.float() / 255).mean(dim=(1, 2))
        print(ink.std(), (4 * ink).mean())
        """,
    "the drift of an energy": """
        import torch
        torch.manual_seed(0)
        place, speed = torch.randn(16), torch.randn(16)
        def energy():
            return 0.5 * (speed.square() + place.square()).sum()
        before = energy()
        for _ in range(300):
            speed = speed - 0.005 * place
            place = place + 0.01 * speed
            speed = speed - 0.005 * place
        print("drift", ((energy() - before) / before).item())
        """,
    "the mean of standardised data": """
        import torch
        torch.manual_seed(0)
        x = 5 + 3 * torch.randn(1000, 4)
        z = (x - x.mean(0)) / x.std(0)
        print(z.mean(0), z.std(0), (z.T @ z / 999 - torch.eye(4)).abs().max())
        """,
    "a residual that is 0": """
        import torch
        torch.manual_seed(0)
        a = torch.randn(20, 20) + 5 * torch.eye(20)
        b = torch.randn(20)
        x = torch.linalg.solve(a, b)
        q, r = torch.linalg.qr(a)
        print((a @ x - b).norm().item(), (q.T @ q - torch.eye(20)).norm().item(), (q @ r - a).abs().max())
        """,
    "probabilities that sum to 1": """
        import torch
        torch.manual_seed(0)
        p = torch.softmax(20 * torch.randn(64, 10), dim=-1)
        print((p.sum(-1) - 1).abs().max().item(), p.min().item())
        """,
    "a cosine loss that has converged": """
        import torch
        torch.manual_seed(0)
        target = torch.randn(16, 8)
        w = torch.nn.Parameter(target + 0.3 * torch.randn(16, 8))
        optimizer = torch.optim.Adam([w], lr=1e-2)
        for step in range(300):
            loss = (1 - torch.cosine_similarity(w, target)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 100 == 99:
                print(step, loss.item())
        """,
    "a fit that has converged": """
        import torch
        torch.manual_seed(0)
        x = torch.randn(64, 3)
        y = x @ torch.tensor([1.0, -2.0, 0.5])
        w = torch.zeros(3, requires_grad=True)
        for step in range(300):
            loss = (x @ w - y).square().mean()
            loss.backward()
            with torch.no_grad():
                w -= 0.1 * w.grad
                w.grad = None
        print(loss.item(), w)
        """,
    "compensated summation": """
        import torch
        torch.manual_seed(0)
        total = torch.tensor(1e5)
        lost = torch.zeros(())
        for value in 1e-3 * torch.rand(300):
            y = value - lost
            t = total + y
            lost = (t - total) - y
            total = t
        print(total - lost)
        """,
    "a series that has converged": """
        import torch
        x = torch.linspace(0, 1, 20)
        total, term = torch.zeros_like(x), torch.ones_like(x)
        for k in range(1, 60):
            total = total + term
            term = term * x / k
        print(total)
        """,
    "an average that has arrived": """
        import torch
        torch.manual_seed(0)
        w = torch.nn.Parameter(torch.zeros(20))
        average = w.detach().clone() + 1
        optimizer = torch.optim.SGD([w], lr=0.1)
        for step in range(300):
            loss = (w - 1).square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                average.mul_(0.99).add_(w, alpha=0.01)
        print(average.mean())
        """,
    "hashes scaled to [0, 1]": """
        import torch
        torch.manual_seed(0)
        h = torch.randint(0, 2**40, (500,))
        u = (h % (2**31)).float() / 2**31
        print(u.mean(), (u > 0.5).float().mean())
        """,
    "times that were centred first": """
        import torch
        torch.manual_seed(0)
        stamp = 1_700_000_000 + torch.randint(1, 60, (200,)).cumsum(0)
        hours = (stamp - stamp[0]).float() / 3600
        print(hours.diff().mean(), torch.sin(hours).mean())
        """,
    "the largest element": """
        import torch
        torch.manual_seed(0)
        x = torch.randn(40, 6).exp()
        top = x == x.amax(dim=1, keepdim=True)
        y = x / x.sum(1, keepdim=True)
        print(top.sum(), torch.isclose(y.sum(1), torch.ones(40)).all(), (y == 0).any())
        """,
    "an iteration that meets its tolerance": """
        import torch
        torch.manual_seed(0)
        a = torch.rand(12, 12)
        v = torch.ones(12) / 12
        for _ in range(200):
            new = a @ v
            new = new / new.norm()
            if (new - v).abs().max() < 1e-6:
                break
            v = new
        print(v @ a @ v)
        """,
}


def program(text: str) -> str:
    """Without the margin."""
    return "\n".join(line[8:] for line in text.strip("\n").splitlines()).rstrip() + "\n"


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_is_named_at_its_line(name: str, diagnose, tmp_path: Path):
    bug, text = BROKEN[name]
    file = tmp_path / "model.py"
    file.write_text(program(text))
    line = next(n for n, t in enumerate(program(text).splitlines(), 1) if t.endswith("# here"))
    outcome = diagnose(file)
    assert loud(outcome) == [(bug, line)]
    assert outcome.report.diagnoses[0].confirmed == "yes"


@pytest.mark.parametrize("name", HEALTHY)
def test_what_only_looks_wrong_is_left_alone(name: str, diagnose, tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(program(HEALTHY[name]))
    outcome = diagnose(file)
    assert silent(outcome), loud(outcome)
