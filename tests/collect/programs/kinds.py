"""Programs of every kind that training code is of, small: each makes a step of training that can be run again.

A program is a function of no arguments that gives a model, or None, and a function of the step's number that trains one
step and gives what is to be the same to the last bit whoever watches: the loss and whatever else.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional
from torch.nn.utils import parametrizations, parametrize, prune, rnn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
from torch.utils.data import DataLoader, TensorDataset

Step = Callable[[int], Any]
Made = tuple[Any, Step]
Program = Callable[[], Made]

PROGRAMS: dict[str, Program] = {}


def program(name: str) -> Callable[[Program], Program]:
    """Enter a program under its name."""

    def enter(function: Program) -> Program:
        PROGRAMS[name] = function
        return function

    return enter


# ---- models ----------------------------------------------------------------------------------------------------------


class Attention(nn.Module):
    """Written out, or by torch's own function."""

    def __init__(self, width: int, heads: int, *, fused: bool) -> None:
        super().__init__()
        self.heads, self.fused = heads, fused
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if self.fused:
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            mask = torch.ones(length, length, dtype=torch.bool).triu(1)
            y = (q @ k.transpose(-2, -1) / 2).masked_fill(mask, float("-inf")).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int, *, fused: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, 2, fused=fused)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width), nn.Dropout(0.1))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """Its head is its embedding."""

    def __init__(self, *, fused: bool = False, again: str = "") -> None:
        super().__init__()
        self.again = again
        self.embed = nn.Embedding(40, 16)
        self.blocks = nn.ModuleList(Block(16, fused=fused) for _ in range(2))
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 40, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=self.again == "reentrant") if self.again else block(x)
        return self.head(self.norm(x))


class Two(nn.Module):
    """Two layers, and what is done between them."""

    def __init__(self, between: Callable[[Tensor], Tensor], *, last: nn.Module | None = None) -> None:
        super().__init__()
        self.first, self.last, self.between = nn.Linear(8, 8), last or nn.Linear(8, 4), between

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.between(self.first(x)))


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4))


class Three(nn.Module):
    """Attention with a part each for query, key and value, in a part that goes round it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.ModuleDict({name: nn.Linear(8, 8) for name in ("query", "key", "value")})
        self.outer = nn.Sequential(nn.Linear(8, 8), Around(self.inner))

    def forward(self, x: Tensor) -> Tensor:
        y = self.outer[0](x)
        return y + self.outer[1](y)


class Around(nn.Module):
    def __init__(self, parts: nn.ModuleDict) -> None:
        super().__init__()
        self.parts = parts

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (part(x) for part in self.parts.values())
        return (query @ key.t()).softmax(-1) @ value


# ---- steps -----------------------------------------------------------------------------------------------------------


def batch(number: int, *shape: int) -> Tensor:
    return torch.randn(*(shape or (4, 8)), generator=torch.Generator().manual_seed(number))


def training(model: Any, loss_of: Callable[[Any, Tensor], Tensor] | None = None, *, optimizer: Any = None,
             shape: tuple[int, ...] = (4, 8)) -> Step:  # fmt: skip
    """A plain step: forward, backward, the optimizer."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.05)

    def step(number: int) -> float:
        x = batch(number, *shape)
        loss = model(x).square().mean() if loss_of is None else loss_of(model, x)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


def plain(model: Any, **options: Any) -> Made:
    return model, training(model, **options)


def tokens_loss(model: Any, x: Tensor) -> Tensor:
    tokens = (x.abs() * 10).long() % 40
    logits = model(tokens[:, :-1])
    return functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())


def language(model: Any, **options: Any) -> Made:
    return plain(model, loss_of=tokens_loss, **options)


def call(model: Any, function: Callable[[Tensor], Any]) -> Made:
    """A step that is one call of a function of the batch."""
    return model, lambda number: function(batch(number))


# ---- architectures ---------------------------------------------------------------------------------------------------

PROGRAMS |= {
    "MLP": lambda: plain(mlp()),
    "GPT, attention written out": lambda: language(Gpt()),
    "GPT, scaled_dot_product_attention": lambda: language(Gpt(fused=True)),
    "GPT in bfloat16": lambda: language(Gpt().to(torch.bfloat16)),
    "a tensor with three consumers": lambda: plain(Three(), shape=(16, 8)),
    "TransformerEncoder": lambda: plain(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), shape=(2, 5, 8)),
    "MultiheadAttention": lambda: plain(
        nn.MultiheadAttention(8, 2), loss_of=lambda m, x: m(x, x, x)[0].square().mean(), shape=(5, 2, 8)
    ),
    "CNN with BatchNorm": lambda: plain(
        nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 2)
        ),
        shape=(2, 3, 8, 8),
    ),
    "LSTM": lambda: plain(nn.LSTM(8, 8, 2), loss_of=lambda m, x: m(x)[0].square().mean(), shape=(5, 2, 8)),
    "GRU, packed sequence": lambda: plain(
        nn.GRU(8, 8),
        loss_of=lambda m, x: m(rnn.pack_padded_sequence(x, torch.tensor([5, 3])))[0].data.square().mean(),
        shape=(5, 2, 8),
    ),
    "EmbeddingBag": lambda: plain(
        nn.EmbeddingBag(40, 8), loss_of=lambda m, x: m((x.abs() * 10).long() % 40).square().mean()
    ),
    "GroupNorm, upsampling": lambda: plain(
        nn.Sequential(nn.Conv2d(4, 4, 1), nn.GroupNorm(2, 4), nn.Upsample(scale_factor=2)), shape=(2, 4, 4, 4)
    ),
    "tied weights": lambda: language(Gpt()),
    "frozen part": lambda: plain(nn.Sequential(nn.Linear(8, 8).requires_grad_(False), nn.Linear(8, 4))),
    "a part called twice": lambda: (lambda part: plain(nn.Sequential(part, nn.Tanh(), part)))(nn.Linear(8, 8)),
    "writing in place": lambda: plain(Two(lambda x: x.mul_(2).add_(1).sigmoid_())),
    "complex numbers and FFT": lambda: plain(Two(lambda x: torch.fft.irfft(torch.fft.rfft(x) * (1 + 0.5j), n=8))),
    "sparse matrix": lambda: plain(Two(lambda x: torch.sparse.mm(torch.eye(4).to_sparse(), x))),
    "einsum": lambda: plain(Two(lambda x: torch.einsum("ab,cb->ac", x, x) @ x)),
    "sort, gather, scatter": lambda: plain(
        Two(lambda x: torch.zeros_like(x).scatter(1, x.argsort(1), x.gather(1, x.argsort(1))))
    ),
    "integers, masks, where": lambda: plain(Two(lambda x: torch.where(x > 0, x, x.detach().round().int() * 0.5))),
    "NaN and inf": lambda: plain(Two(lambda x: x + torch.log(torch.zeros(8)).nan_to_num(neginf=-1.0))),
    "no tensor in, dict out": lambda: plain(
        Two(lambda x: x), loss_of=lambda m, x: {"y": m(x)}["y"].square().mean()
    ),
}  # fmt: skip


# ---- ways of training ------------------------------------------------------------------------------------------------

PROGRAMS |= {
    "AdamW": lambda: (lambda m: plain(m, optimizer=torch.optim.AdamW(m.parameters())))(mlp()),
    "LBFGS": lambda: lbfgs(mlp()),
    "checkpoint, reentrant": lambda: language(Gpt(again="reentrant")),
    "checkpoint, not reentrant": lambda: language(Gpt(again="not reentrant")),
    "checkpoint_sequential": lambda: (
        lambda m: plain(m, loss_of=lambda m, x: checkpoint_sequential(m, 2, x, use_reentrant=False).square().mean())
    )(mlp()),
    "weight norm": lambda: plain(nn.Sequential(parametrizations.weight_norm(nn.Linear(8, 4)))),
    "spectral norm": lambda: plain(nn.Sequential(parametrizations.spectral_norm(nn.Linear(8, 4)))),
    "a parametrization": lambda: (
        lambda m: parametrize.register_parametrization(m[0], "weight", nn.Tanh()) and plain(m)
    )(mlp()),
    "pruning": lambda: (lambda m: prune.l1_unstructured(m[0], "weight", 0.5) and plain(m))(mlp()),
    "gradient clipping": lambda: plain(mlp(), loss_of=None),
    "dropout": lambda: plain(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 4))),
    "a generator of its own": lambda: plain(
        Two(lambda x: x * torch.rand(8, generator=torch.Generator().manual_seed(3)))
    ),
    "shared memory": lambda: plain(mlp().share_memory()),
    "no_grad in between": lambda: plain(Two(lambda x: x + no_grad(x))),
    "inference_mode beside": lambda: plain(mlp(), loss_of=with_inference),
    "random numbers in between": lambda: plain(Two(lambda x: x + torch.randn_like(x))),
}  # fmt: skip


@torch.no_grad()
def no_grad(x: Tensor) -> Tensor:
    return x.exp()


def with_inference(model: Any, x: Tensor) -> Tensor:
    with torch.inference_mode():
        model(x)
    return model(x).square().mean()


def lbfgs(model: Any, max_iter: int = 3, line_search: str | None = None) -> Made:
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=max_iter, line_search_fn=line_search)

    def step(number: int) -> float:
        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = model(batch(number)).square().mean()
            loss.backward()
            return loss

        return optimizer.step(closure).item()

    return model, step


@program("gradient accumulation and clipping")
def _() -> Made:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(number: int) -> float:
        for part in range(3):
            model(batch(10 * number + part)).square().mean().backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        optimizer.zero_grad()
        return norm.item()

    return model, step


@program("autocast and GradScaler")
def _() -> Made:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler("cpu")

    def step(number: int) -> float:
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(batch(number)).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        return loss.item()

    return model, step


@program("a schedule of learning rates")
def _() -> Made:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)
    train = training(model, optimizer=optimizer)

    def step(number: int) -> tuple[float, float]:
        loss = train(number)
        schedule.step()
        return loss, schedule.get_last_lr()[0]

    return model, step


@program("GAN, two models")
def _() -> Made:
    generator, judge = mlp(), nn.Sequential(nn.Linear(4, 1))
    first = torch.optim.SGD(generator.parameters(), lr=0.05)
    second = torch.optim.SGD(judge.parameters(), lr=0.05)

    def step(number: int) -> tuple[float, float]:
        made = generator(batch(number))
        loss = judge(made.detach()).square().mean()
        loss.backward()
        second.step()
        second.zero_grad()
        fooled = -judge(made).mean()
        fooled.backward()
        first.step()
        first.zero_grad()
        return loss.item(), fooled.item()

    return [generator, judge], step


@program("double backward")
def _() -> Made:
    def loss_of(model: Any, x: Tensor) -> Tensor:
        x.requires_grad_()
        (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        return (gradient.norm(dim=1) - 1).square().mean()

    return plain(mlp(), loss_of=loss_of)


@program("backward twice, retain_graph")
def _() -> Made:
    def loss_of(model: Any, x: Tensor) -> Tensor:
        loss = model(x).square().mean()
        loss.backward(retain_graph=True)
        return loss

    return plain(mlp(), loss_of=loss_of)


class _Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return gradient * 3 * x**2


@program("a custom autograd function")
def _() -> Made:
    return plain(Two(_Cube.apply))


@program("hooks of the user's")
def _() -> Made:
    model = mlp()
    model[0].register_forward_pre_hook(lambda _, args: (args[0] * 2,))
    model[1].register_forward_hook(lambda _, __, output: output + 1)
    model[2].register_full_backward_hook(lambda _, gradients, __: tuple(g * 2 for g in gradients))
    model[0].weight.register_hook(lambda gradient: gradient * 0.5)
    return plain(model)


@program("an exception that is caught")
def _() -> Made:
    def between(x: Tensor) -> Tensor:
        try:
            torch.matmul(x, torch.ones(3, 3))
        except RuntimeError:
            return x + 1
        return x

    return plain(Two(between))


@program("threads")
def _() -> Made:
    models = [mlp(), mlp()]
    results: dict[int, float] = {}

    def step(number: int) -> list[float]:
        def work(index: int) -> None:
            loss = models[index](batch(number + index)).square().mean()
            loss.backward()
            results[index] = loss.item()

        workers = [threading.Thread(target=work, args=(index,)) for index in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return [results[index] for index in range(2)]

    return models, step


@program("DataLoader with workers")
def _() -> Made:
    model = mlp()
    train = training(model)
    data = TensorDataset(batch(0, 8, 8))

    def step(number: int) -> list[float]:
        return [train(number + int(part[0].sum() > 1e9)) for part in DataLoader(data, 4, num_workers=1)]

    return model, step


@program("EMA, a copy of the model in each step")
def _() -> Made:
    model = mlp()
    train = training(model)
    average = torch.optim.swa_utils.AveragedModel(model)

    def step(number: int) -> tuple[float, float]:
        loss = train(number)
        average.update_parameters(model)
        return loss, copy.deepcopy(model)(batch(number)).sum().item() + average(batch(number)).sum().item()

    return model, step


@program("reinforcement, sampling")
def _() -> Made:
    def loss_of(model: Any, x: Tensor) -> Tensor:
        policy = torch.distributions.Categorical(logits=model(x))
        action = policy.sample()
        return -(policy.log_prob(action) * action).mean()

    return plain(mlp(), loss_of=loss_of)


@program("variational autoencoder")
def _() -> Made:
    def between(x: Tensor) -> Tensor:
        return torch.distributions.Normal(x, x.abs() + 0.1).rsample()

    return plain(Two(between))


@program("mixture of experts")
def _() -> Made:
    class Mixture(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(8, 3)
            self.experts = nn.ModuleList(nn.Linear(8, 4) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            weights, chosen = self.gate(x).softmax(-1).max(-1)
            y = torch.zeros(len(x), 4)
            for index, expert in enumerate(self.experts):
                mine = chosen == index
                if mine.any():
                    y[mine] = expert(x[mine])
            return y * weights[:, None]

    return plain(Mixture())


# ---- traced, transformed, compiled -----------------------------------------------------------------------------------


def _dual(model: Any, x: Tensor) -> Tensor:
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(model(forward_ad.make_dual(x, x))).tangent


PROGRAMS |= {
    "fx": lambda: (lambda m: call(m, lambda x: torch.fx.symbolic_trace(m)(x)))(mlp()),
    "make_fx": lambda: (lambda m: call(m, lambda x: make_fx(m)(x)(x)))(mlp()),
    "jit.script": lambda: (lambda m: call(m, lambda x: torch.jit.script(m)(x)))(mlp()),
    "jit.trace": lambda: (lambda m: call(m, lambda x: torch.jit.trace(m, x)(x)))(mlp()),
    "a ScriptModule in the model": lambda: plain(Two(torch.tanh, last=torch.jit.script(nn.Linear(8, 4)))),
    "export": lambda: (lambda m: call(m, lambda x: torch.export.export(m, (x,)).module()(x)))(mlp()),
    "func.grad": lambda: (lambda m: call(m, torch.func.grad(lambda x: m(x).sum())))(mlp()),
    "func.vmap": lambda: (lambda m: call(m, torch.func.vmap(m)))(mlp()),
    "func.jvp": lambda: (lambda m: call(m, lambda x: torch.func.jvp(m, (x,), (x,))[1]))(mlp()),
    "func.hessian": lambda: (lambda m: call(m, torch.func.hessian(lambda x: m(x).sum())))(mlp()),
    "functional_call": lambda: (
        lambda m: call(m, lambda x: torch.func.functional_call(m, dict(m.named_parameters()), (x,)))
    )(mlp()),
    "forward AD": lambda: (lambda m: call(m, lambda x: _dual(m, x)))(mlp()),
    "torch.compile, eager": lambda: (lambda m: (m, training(torch.compile(m, backend="eager"))))(mlp()),
    "torch.compile, aot_eager": lambda: (lambda m: (m, training(torch.compile(m, backend="aot_eager"))))(mlp()),
    "torch.compile, fullgraph": lambda: (
        lambda m: (m, training(torch.compile(m, backend="eager", fullgraph=True)))
    )(mlp()),
    "torch.compile, dynamic": lambda: (
        lambda m: (m, training(torch.compile(m, backend="eager", dynamic=True)))
    )(mlp()),
}  # fmt: skip


# ---- kinds of tensors ------------------------------------------------------------------------------------------------


class Tagged(torch.Tensor):
    """A subclass that the user made."""


PROGRAMS |= {
    "nested tensor": lambda: plain(
        Two(lambda x: torch.nested.nested_tensor([x[0], x[1]], layout=torch.jagged).values().reshape(2, 8) + 0 * x[:2])
    ),
    "quantized tensor": lambda: plain(
        Two(lambda x: x + torch.quantize_per_tensor(x.detach(), 0.1, 0, torch.qint8).dequantize())
    ),
    "float8": lambda: plain(Two(lambda x: x + x.detach().to(torch.float8_e4m3fn).float())),
    "float64": lambda: (
        lambda m: plain(m, loss_of=lambda m, x: m(x.double()).square().mean())
    )(mlp().double()),
    "a subclass of Tensor": lambda: plain(
        mlp(), loss_of=lambda m, x: m(x.as_subclass(Tagged)).square().mean().as_subclass(torch.Tensor)
    ),
    "quantisation-aware (fake_quantize)": lambda: plain(
        Two(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127))
    ),
    "meta tensors beside": lambda: plain(
        mlp(), loss_of=lambda m, x: (nn.Linear(3, 3, device="meta")(torch.empty(2, 3, device="meta")), m(x))[1].mean()
    ),
}  # fmt: skip
