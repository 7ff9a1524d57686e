"""An image classifier of convolutions and one attention, written with the library's functions."""

from torch import nn
from torch.nn import functional

FRAMEWORK = "torch"
DEFECTS = {
    "slope": r"leaky_relu",
    "scale": r"scaled_dot_product_attention",
    "gelu": r"gelu",
    "weight": r"linear\.5\.|narrow\.Linear",
}


class Mixer(nn.Module):
    def __init__(self, defect):
        super().__init__()
        self.defect = defect
        self.stem, self.norm1 = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.point, self.norm2 = nn.Conv2d(16, 32, 1), nn.BatchNorm2d(32)
        self.norm3, self.norm4 = nn.LayerNorm(32), nn.LayerNorm(32)
        self.query, self.key, self.value, self.out = (nn.Linear(32, 32) for _ in range(4))
        self.wide, self.narrow, self.head = nn.Linear(32, 64), nn.Linear(64, 32), nn.Linear(32, 10)
        for name, parameter in self.named_parameters():  # as after some training
            if name.startswith("norm"):
                nn.init.normal_(parameter, float(name.endswith("weight")), 0.1)
            elif name.endswith("weight"):
                parameter.data.mul_(1.7)

    def forward(self, x):
        x = functional.leaky_relu(self.norm1(self.stem(x)), 0.12 if self.defect == "slope" else 0.1)
        x = functional.silu(self.norm2(self.point(functional.avg_pool2d(x, 2))))
        x = x.flatten(2).transpose(1, 2)
        normal = self.norm3(x)
        batch, length, width = normal.shape
        parts = (
            layer(normal).view(batch, length, 4, 8).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        mixed = functional.scaled_dot_product_attention(*parts, scale=0.5 if self.defect == "scale" else None)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        way = "none" if self.defect == "gelu" else "tanh"
        x = x + self.narrow(functional.gelu(self.wide(self.norm4(x)), approximate=way))
        return self.head(x.mean(1))


def build(defect):
    """The model, with `defect` or None."""
    return Mixer(defect)


def spoil(model, defect):
    """Change weights, if that is the defect."""
    if defect == "weight":
        model.narrow.weight.data[3, 5] += 0.05


def loss(model, batch):
    """Cross entropy of the classes."""
    return functional.cross_entropy(model(batch["x"]), batch["y"])
