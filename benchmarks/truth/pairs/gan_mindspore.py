"""The model of gan_torch in MindSpore: layers over parameters, both batches judged at once, losses by softplus."""

import numpy as np
from mindspore import Parameter, Tensor, nn, ops

FRAMEWORK = "mindspore"
DEFECTS = {
    "eps": r"norm_one|[bB]atch_?[nN]orm",
    "slope": r"where|[sS]elect|[mM]ul|[mM]aximum",
    "relu": r"relu|ReLU|__truediv__\.0\.",
    "weight": r"last|Conv2DTranspose|Conv2DBackpropInput|Conv2D|BiasAdd",
    "softplus": r"[sS]oftplus|[lL]og|[eE]xp|[mM]ul|mean\.0\.",
}


class Generator(nn.Cell):
    def __init__(self, defect):
        super().__init__()
        self.defect = defect
        self.first = nn.Conv2dTranspose(24, 32, 4, 1, pad_mode="pad", padding=0, has_bias=False)
        self.norm_one = nn.BatchNorm2d(32, eps=1e-2 if defect == "eps" else 1e-5)
        self.middle = nn.Conv2dTranspose(32, 16, 4, 2, pad_mode="pad", padding=1, has_bias=False)
        self.norm_two = nn.BatchNorm2d(16, eps=1e-5)
        self.last = nn.Conv2dTranspose(16, 3, 4, 2, pad_mode="pad", padding=1, has_bias=True)

    def construct(self, noise):
        x = ops.relu(self.norm_one(self.first(noise)))
        x = self.norm_two(self.middle(x))
        x = ops.relu6(x * 2.0) / 2.0 if self.defect == "relu" else ops.relu(x)
        return ops.tanh(self.last(x))


class Critic(nn.Cell):
    def __init__(self, defect):
        super().__init__()
        self.defect = defect
        self.one, self.two = (
            Parameter(Tensor(np.zeros((16, 3, 4, 4), "f4"))),
            Parameter(Tensor(np.zeros((32, 16, 4, 4), "f4"))),
        )
        self.shift_one, self.shift_two = Parameter(Tensor(np.zeros(16, "f4"))), Parameter(Tensor(np.zeros(32, "f4")))
        self.verdict = nn.Dense(512, 1)

    def leaky(self, x, slope=0.2):
        return ops.maximum(x, slope * x)

    def construct(self, images):
        x = self.leaky(ops.conv2d(images, self.one, self.shift_one, 2, "pad", 1))
        x = ops.conv2d(x, self.two, self.shift_two, 2, "pad", 1)
        x = self.leaky(x, 0.25 if self.defect == "slope" else 0.2)
        return self.verdict(x.reshape(x.shape[0], -1))


class Pair(nn.Cell):
    def __init__(self, defect):
        super().__init__()
        self.defect = defect
        self.generator, self.critic = Generator(defect), Critic(defect)

    def construct(self, real, noise):
        fake = self.generator(noise)
        judged = self.critic(ops.cat((real, ops.stop_gradient(fake))))
        return judged[:4], judged[4:], self.critic(fake)


def build(defect):
    """The model, with `defect` or None."""
    return Pair(defect)


def carry(weights, defect):
    """gan_torch's weights under the names of this model, with `defect`."""
    carried = {
        "generator.first.weight": weights["generate.0.weight"],
        "generator.middle.weight": weights["generate.3.weight"],
        "generator.last.weight": weights["generate.6.weight"].copy(), "generator.last.bias": weights["generate.6.bias"],
        "critic.one": weights["judge.0.weight"], "critic.shift_one": weights["judge.0.bias"],
        "critic.two": weights["judge.2.weight"], "critic.shift_two": weights["judge.2.bias"],
        "critic.verdict.weight": weights["judge.5.weight"], "critic.verdict.bias": weights["judge.5.bias"],
    }  # fmt: skip
    words = {"gamma": "weight", "beta": "bias", "moving_mean": "running_mean", "moving_variance": "running_var"}
    for ours, theirs in (("norm_one", "generate.1"), ("norm_two", "generate.4")):
        carried |= {f"generator.{ours}.{word}": weights[f"{theirs}.{other}"] for word, other in words.items()}
    if defect == "weight":
        carried["generator.last.weight"][3] *= 1.5
    return carried


def loss(model, batch):
    """What the critic loses on real and false images, and the generator on its own."""
    noise = batch["x"][:, :, :2, :4].reshape(4, 24, 1, 1)
    real, fake, fooled = model(batch["x"], noise)
    softplus = lambda x: ops.relu(x) + ops.log(1 + ops.exp(-ops.abs(x)))  # noqa: E731
    beta = 0.85 if model.defect == "softplus" else 0.9
    judged = (softplus(real) - beta * real).mean() + softplus(fake).mean()
    return judged + softplus(-fooled).mean()
