import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

ms.set_context(mode=ms.GRAPH_MODE)
ms.set_device("CPU")


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm((16,))
        self.up = nn.Dense(8, 16)
        self.down = nn.Dense(16, 4)

    def construct(self, x):
        hidden = ops.relu(self.norm(self.up(x)))
        return self.down(hidden)


class Loss(nn.Cell):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.loss = nn.CrossEntropyLoss()

    def construct(self, x, y):
        return self.loss(self.net(x), y)


net = Net()
step = nn.TrainOneStepCell(Loss(net), nn.Adam(net.trainable_params(), 1e-3))
step.set_train()
print(step(Tensor(np.ones((4, 8), np.float32)), Tensor(np.array([0, 1, 2, 3], np.int32))))
