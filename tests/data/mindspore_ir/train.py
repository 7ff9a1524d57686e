import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

ms.set_context(mode=ms.GRAPH_MODE)
ms.set_device("CPU")


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm((4,))
        self.up = nn.Dense(4, 8)
        self.down = nn.Dense(8, 4)

    def construct(self, x):
        hidden = ops.relu(self.up(self.norm(x)))
        return x + self.down(hidden)


class Loss(nn.Cell):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def construct(self, x, y):
        difference = self.net(x) - y
        return ops.reduce_mean(difference * difference)


ms.set_seed(0)
loss = Loss(Net())
gradients = ms.value_and_grad(loss, None, loss.trainable_params())


@ms.jit
def step(x, y):
    value, found = gradients(x, y)
    return value, found


print(step(Tensor(np.ones((2, 4), np.float32)), Tensor(np.zeros((2, 4), np.float32)))[0])
